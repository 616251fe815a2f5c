package history

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
)

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
	for _, m := range n {
		out = append(out, &model.Sample{Metric: m.Clone(), Value: 1})
	}
	return out, nil
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
		client, err := promapi.New(promapi.Server{Address: s.URL})
		fatal.If(t, err)
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
	client, err := promapi.New(promapi.Server{Address: silent.URL})
	fatal.If(t, err)
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
