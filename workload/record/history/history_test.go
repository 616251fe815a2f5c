package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	got, err := Read(t.Context(), config(client, w))
	if err != nil || got.Nodes != 2 || got.Pods != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	checkRows(t, dir)
	r, err := record.Open(dir)
	fatal.If(t, err)
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

// checkRows compares a record's pods, nodes and samples with the history's.
func checkRows(t *testing.T, dir string) {
	t.Helper()
	r, err := record.Open(dir)
	fatal.If(t, err)
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
		r, err := record.Open(dir)
		fatal.If(t, err)
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
		w, err := record.Create(dir, record.Options{})
		fatal.If(t, err)
		w.Pod(record.Pod{UID: "u"})
		if run.ID != "" {
			w.Run(run)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
