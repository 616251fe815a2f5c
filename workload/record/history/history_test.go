package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
)

var t0 = historytest.Begin

func config(ask Asker, out Sink) Config {
	return Config{Ask: ask, Out: out, From: t0, To: historytest.End, Chunk: historytest.Chunk, Usage: historytest.Usage, Program: "test",
		Progress: func(float64, int) {}, Pause: func(context.Context, time.Duration) error { return nil }}
}

// ms returns the time of a second of the history.
func ms(s int64) int64 { return (t0.Unix() + s) * 1000 }

// wantPods are the pods of the history.
func wantPods() []record.Pod {
	base := record.Pod{Namespace: "shop", MilliCPU: 500, Priority: 2_000_001_000, PriorityClass: "system-node-critical"}
	web, job, agent, changed, mesh := base, base, base, base, base
	web.UID, web.Name, web.Node, web.OwnerKind, web.OwnerName, web.Workload, web.Arrived, web.Bound = "u-web", "web", "n1", "ReplicaSet",
		"web-5d8f", "Deployment/web", ms(23), ms(65)
	web.Labels, web.Tolerations = `{"app.kubernetes.io/name":"web","pod-template-hash":"5d8f"}`,
		`[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`
	job.UID, job.Name, job.Node, job.OwnerKind, job.OwnerName, job.Workload, job.Arrived, job.Bound, job.Ended, job.End = "u-job", "job", "n2",
		"Job", "job", "Job/job", ms(593), ms(593), ms(900), record.Succeeded
	agent.UID, agent.Name, agent.Node, agent.OwnerKind, agent.OwnerName, agent.Workload, agent.Daemon = "u-agent", "agent", "n2", "DaemonSet",
		"agent", "DaemonSet/agent", true
	agent.Arrived, agent.Bound, agent.Ended, agent.End = ms(-7), ms(-7), ms(1500), record.Deleted
	changed.UID, changed.Name, changed.Node, changed.Arrived, changed.Bound = "u-changed", "changed", "n1", ms(-7), ms(-7)
	mesh.UID, mesh.Name, mesh.Node, mesh.Arrived, mesh.Bound = "u-mesh", "mesh", "n1", ms(1223), ms(1223)
	mesh.MilliCPU, mesh.Memory, mesh.MemoryLimit = 2250, 1<<30+1<<29+128<<20, 1<<30+1<<29+128<<20
	return []record.Pod{agent, changed, web, job, mesh}
}

// wantNodes are the nodes of the history.
func wantNodes() []record.Node {
	n1 := record.Node{
		Name: "n1", From: ms(0), To: ms(2400), MilliCPU: 4000, Memory: 8 << 30, Pods: 110, Extended: `{"example.com/fpga":"2"}`,
		Labels: `{"disk":"ssd","topology.kubernetes.io/zone":"a"}`, Taints: `[{"key":"gpu","effect":"NoSchedule"}]`,
	}
	n2, later := n1, n1
	later.From, later.To, later.Labels = ms(2400), 0, `{"disk":"hdd","topology.kubernetes.io/zone":"a"}`
	n2.Name, n2.Taints, n2.To, n2.Gone = "n2", "", ms(2400), true
	return []record.Node{n1, n2, later}
}

// checkRecord reads the history into a new record, and compares it with what happened.
func checkRecord(t *testing.T, client *promapi.Client) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	got, err := Read(t.Context(), config(client, w))
	if err != nil || got.Nodes != 2 || got.Pods != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	fatal.Value(w.Close())(t)
	checkRows(t, dir)
	r := fatal.Value(record.Open(dir))(t)
	runs, err := r.Runs()
	if d := cmp.Diff([]record.Run{{ID: "1", Source: "prometheus", From: ms(0), To: ms(3600), Program: "test"}}, runs,
		cmpopts.IgnoreFields(record.Run{}, "Missing")); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	if m := runs[0].Missing; !strings.HasPrefix(m, "affinity, topology spread") || strings.Contains(m, "labels of pods") ||
		strings.Contains(m, "overhead") || strings.Contains(m, "sidecars") {
		t.Errorf("missing %q", m)
	}
}

// wantObjects are the owners of the history's pods, at the looks at them.
func wantObjects() []record.Object {
	row := func(kind, name string, from, to int64, scale string) record.Object {
		o := record.Object{Kind: kind, Namespace: "shop", Name: name, From: ms(from), Scale: scale}
		if to > 0 {
			o.To = ms(to)
		}
		return o
	}
	job := row(record.KindJob, "job", 600, 1800, `{"parallelism":2}`)
	job.Gone = true
	return []record.Object{
		row(record.KindDeployment, "web", 0, 1800, `{"replicas":1,"strategy":"RollingUpdate","maxSurge":"1"}`),
		row(record.KindDeployment, "web", 1800, 0, `{"replicas":3,"strategy":"RollingUpdate","maxSurge":"1"}`),
		row(record.KindAutoscaler, "web", 0, 0, `{"replicas":3,"target":"Deployment/web","max":5}`), job,
		row(record.KindReplicaSet, "web-5d8f", 0, 0, `{"owner":"Deployment/web","replicas":1}`),
	}
}

// checkRows compares a record's pods, nodes and samples with the history's.
func checkRows(t *testing.T, dir string) {
	t.Helper()
	r := fatal.Value(record.Open(dir))(t)
	pods, err := r.Pods()
	if d := cmp.Diff(wantPods(), pods, cmpopts.SortSlices(func(a, b record.Pod) bool { return a.UID < b.UID })); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	nodes, err := r.Nodes()
	if d := cmp.Diff(wantNodes(), nodes, cmpopts.SortSlices(func(a,
		b record.Node) bool {
		return a.Name < b.Name || a.Name == b.Name && a.From < b.From
	})); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	objects, err := r.Objects()
	if d := cmp.Diff(wantObjects(), objects); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	samples := 0
	err = r.Samples(func(s record.Sample) error {
		want := record.Sample{Time: s.Time, Name: "n1", MilliCPU: 1000, Memory: 1 << 30}
		if s.Namespace != "" {
			want = record.Sample{Time: s.Time, Namespace: "shop", Name: "web", MilliCPU: 500, Memory: 1 << 20}
		}
		if s.Time < ms(300) || s != want {
			t.Errorf("sample %+v", s)
		}
		samples++
		return nil
	})
	if err != nil || samples != 22 {
		t.Errorf("%d samples, %v", samples, err)
	}
}

// A real Prometheus' answers become the record.
func TestHistoryOfAnswers(t *testing.T) {
	checkRecord(t, clientOf(t, historytest.Server(t, nil).URL))
}

// A history that is cut off in any chunk is complete until then, and its record tells so. Going on gives the same record.
func TestHistoryIsCutOff(t *testing.T) {
	for _, c := range []struct {
		query   string // the part of a query at which Prometheus is away
		at      int64
		reached int64 // seconds; 0: nothing
	}{
		{"kube_node_info", 0, 0}, {"kube_pod_info", 1200, 0}, {"kube_pod_created", 2400, 1200}, {"kube_node_labels", 2400, 1200},
		{"kube_pod_status_phase", 3600, 2400},
	} {
		away := true
		s := historytest.Server(t, func(w http.ResponseWriter, q url.Values) bool {
			if !away || !strings.Contains(q.Get("query"), c.query) || q.Get("time") != fmt.Sprint(ms(c.at)/1000) {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		dir := filepath.Join(t.TempDir(), "r.record")
		leg := func(change func(*Config)) error {
			w, err := record.Create(dir, record.Options{})
			fatal.If(t, err)
			conf := config(clientOf(t, s.URL), w)
			change(&conf)
			_, err = Read(t.Context(), conf)
			if _, err := w.Close(); err != nil {
				t.Error(err)
			}
			return err
		}
		err := leg(func(*Config) {})
		var unanswered Unanswered
		want := "the record is complete until " + text(t0.Add(time.Duration(c.reached)*time.Second))
		if !errors.As(err, &unanswered) || strings.Contains(err.Error(), want) != (c.reached > 0) {
			t.Errorf("%s: %v, want %q", c.query, err, want)
		}
		away = false
		if c.reached == 0 {
			if record.Is(dir) {
				t.Errorf("%s: it left a record", c.query)
			}
			continue
		}
		earlier, err := Resume(dir)
		if err != nil || earlier.Until.UnixMilli() != ms(c.reached) {
			t.Fatalf("%s: %+v, %v", c.query, earlier, err)
		}
		r := fatal.Value(record.Open(dir))(t)
		runs, err := r.Runs()
		if err != nil || len(runs) != 1 || runs[0].To != ms(c.reached) || !strings.HasPrefix(runs[0].Missing, "affinity") {
			t.Errorf("%s: runs %+v, %v", c.query, runs, err)
		}
		if err := leg(func(conf *Config) { conf.Earlier, conf.From = earlier, earlier.Until }); err != nil {
			t.Errorf("%s: going on: %v", c.query, err)
		}
		checkRows(t, dir)
	}
}

// full is a sink whose disk is full after some flushes.
type full struct {
	*record.Writer
	left int
}

var errFull = errors.New("no space left on device")

func (f *full) Flush() (record.Flushed, error) {
	if f.left--; f.left < 0 {
		return record.Flushed{}, errFull
	}
	return f.Writer.Flush()
}

// A full disk is not reported as Prometheus' fault.
func TestHistoryOnAFullDisk(t *testing.T) {
	w, err := record.Create(filepath.Join(t.TempDir(), "r.record"), record.Options{})
	fatal.If(t, err)
	_, err = Read(t.Context(), config(clientOf(t, historytest.Server(t, nil).URL), &full{w, 1}))
	var unanswered Unanswered
	if !errors.Is(err, errFull) || errors.As(err, &unanswered) ||
		!strings.Contains(err.Error(), "the record is complete until "+text(t0.Add(20*time.Minute))) {
		t.Error(err)
	}
	if _, err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A record of another source is not gone on with.
func TestResumeRefuses(t *testing.T) {
	for want, run := range map[string]record.Run{
		"is a record already, of the source live":                 {ID: "1", Source: "live", From: 1, To: 2},
		"is a record already, and does not say until when it was": {},
	} {
		dir := filepath.Join(t.TempDir(), "r.record")
		w := fatal.Value(record.Create(dir, record.Options{}))(t)
		w.Pod(record.Pod{UID: "u"})
		if run.ID != "" {
			w.Run(run)
		}
		fatal.Value(w.Close())(t)
		if _, err := Resume(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// everything knows all pods, and nodes by their names.
type everything struct{}

func (everything) Pod(_, name string) bool    { return name != "other" }
func (everything) Node(names []string) string { return names[0] }

// A measurement at one time equals the history's at that time. A container that was scraped once has no rate.
func TestMeasure(t *testing.T) {
	ask := clientOf(t, historytest.Server(t, nil).URL)
	for after, want := range map[time.Duration]Measured{
		10 * time.Minute: {Unknown: map[string]bool{}, Samples: []record.Sample{
			{Time: ms(600), Name: "10.0.0.1:10250", MilliCPU: 1000, Memory: 1 << 30},
			{Time: ms(600), Namespace: "shop", Name: "web", MilliCPU: 500, Memory: 1 << 20}}},
		0: {Unknown: map[string]bool{}, Single: 2},
	} {
		got, err := Measure(t.Context(), ask, t0.Add(after), everything{})
		if d := cmp.Diff(want, got, cmpSamples); err != nil || d != "" {
			t.Errorf("after %v: %v, %s", after, err, d)
		}
	}
}

var cmpSamples = cmpopts.SortSlices(func(a, b record.Sample) bool { return a.Name < b.Name })

// values answers each query of pods with values by their names; nodes have none.
type values map[string]float64

func (v values) Query(_ context.Context, query string, _ time.Time) (out model.Vector, _ error) {
	if query != usageQueries[0].cpu && query != usageQueries[0].memory {
		return nil, nil
	}
	for name, x := range v {
		out = append(out, &model.Sample{
			Metric: model.Metric{"namespace": "a", "pod": model.LabelValue(name), "container": "c"}, Value: model.SampleValue(x), Timestamp: 7,
		})
	}
	return out, nil
}

func (values) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("not an instant")
}

func TestMeasureLeavesOut(t *testing.T) {
	got, err := Measure(t.Context(),
		values{"good": 0.25, "nan": math.NaN(), "negative": -1, "infinite": math.Inf(1), "huge": 1e300, "": 1, "other": 1}, t0, everything{})
	want := Measured{Invalid: 3, Unknown: map[string]bool{"pod a/other": true}, Samples: []record.Sample{
		{Time: ms(0), Namespace: "a", Name: "good", MilliCPU: 250},
		{Time: ms(0), Namespace: "a", Name: "huge", MilliCPU: 10_000_000, Memory: 1 << 44},
	}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v, %s", err, d)
	}
	if _, err := Measure(t.Context(), values{}, t0, everything{}); err == nil {
		t.Error("no usage at all is no error")
	}
}

// nodesOf answers every query with series of kube_node_info.
type nodesOf []model.Metric

func (n nodesOf) Query(context.Context, string, time.Time) (out model.Vector, _ error) {
	return each.Map(n, func(m model.Metric) *model.Sample { return &model.Sample{Metric: m.Clone(), Value: 1} }), nil
}

func (nodesOf) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("not asked")
}

func TestSeveralClusters(t *testing.T) {
	for name, c := range map[string]struct {
		nodes nodesOf
		label string // "": one cluster
	}{
		"the usual label":           {nodesOf{{"node": "a", "cluster": "east"}, {"node": "b", "cluster": "west"}}, "cluster"},
		"another label":             {nodesOf{{"node": "a", "site": "x", "system_uuid": "1"}, {"node": "a", "site": "y", "system_uuid": "2"}}, "site"},
		"prometheus":                {nodesOf{{"node": "a", "prometheus": "x", "internal_ip": "1"}, {"node": "a", "prometheus": "y", "internal_ip": "2"}}, "prometheus"},
		"one value":                 {nodesOf{{"node": "a", "cluster": "east"}, {"node": "b", "cluster": "east"}}, ""},
		"one node scraped twice":    {nodesOf{{"node": "a", "replica": "1", "system_uuid": "1"}, {"node": "a", "replica": "2", "system_uuid": "1"}}, ""},
		"labels of different nodes": {nodesOf{{"node": "a", "site": "x", "internal_ip": "1"}, {"node": "b", "site": "y", "internal_ip": "2"}}, ""},
	} {
		r := &reader{Config: Config{Ask: c.nodes}, gaps: newGaps()}
		err := r.apart(t.Context(), t0)
		var several SeveralClusters
		if errors.As(err, &several); several.Label != c.label || (err == nil) != (c.label == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pod with a container that finished early stays until it is deleted.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		name  string
		pod   pod
		ended int64
		end   string
	}{
		{"seen last", pod{seen: 500}, 500, record.Deleted},
		{"never seen", pod{}, 600, record.Deleted},
		{"deletion after it was seen", pod{seen: 500, deletion: 550}, 550, record.Deleted},
		{"a container finished", pod{seen: 500, row: record.Pod{Ended: 100}}, 500, record.Deleted},
		{"succeeded", pod{seen: 500, row: record.Pod{Ended: 100, End: record.Succeeded}}, 100, record.Succeeded},
	} {
		if c.pod.leave(600); c.pod.row.Ended != c.ended || c.pod.row.End != c.end {
			t.Errorf("%s: %d, %s", c.name, c.pod.row.Ended, c.pod.row.End)
		}
	}
}

// An answer of Prometheus other than a history gives an error with the next step; failing queries are retried.
func TestHistoryErrors(t *testing.T) {
	for want, answer := range map[string]struct {
		status int
		body   string
		asked  int // at the first query
	}{
		"kube_node_info: server error: 503": {503, "", tries},
		"query timed out":                   {503, `{"status":"error","error":"query timed out"}`, tries},
		"client error: 429":                 {429, `{"error":"slow down"}`, tries},
		"too many samples": {422,
			`{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`, 1},
		"no series kube_pod_info from 2026-02-02T02": {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, 0},
		"not an answer of Prometheus":                {200, "<html>", tries},
	} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(answer.status)
			_, _ = w.Write([]byte(answer.body))
		}))
		client := fatal.Value(promapi.New(promapi.Server{Address: s.URL}))(t)
		w, err := record.Create(t.TempDir(), record.Options{})
		fatal.If(t, err)
		c := config(client, w)
		c.Usage = 0
		_, err = Read(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) || answer.asked > 0 && asked != answer.asked {
			t.Errorf("%v after %d queries, want %q", err, asked, want)
		}
		if _, err := w.Close(); err != nil {
			t.Error(err)
		}
		client.HTTP.CloseIdleConnections()
		s.Close()
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client leaves
		<-r.Context().Done()
	}))
	defer silent.Close()
	client := fatal.Value(promapi.New(promapi.Server{Address: silent.URL}))(t)
	defer client.HTTP.CloseIdleConnections()
	late := config(client, nil)
	late.Patience = time.Millisecond
	if _, err := Read(t.Context(), late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that never answers: %v", err)
	}
	stop := errors.New("stop")
	c := config(&promapi.Client{HTTP: &http.Client{}, URL: "http://127.0.0.1:1"}, nil)
	c.Pause = func(context.Context, time.Duration) error { return stop }
	if _, err := Read(t.Context(), c); !errors.Is(err, stop) {
		t.Errorf("an interrupted pause: %v", err)
	}
}
