package usage

import (
	"math"
	"net/http/httptest"
	"testing"

	"k8s.io/klog/v2"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// Throttled CPU counts with its measurement. Where it is missing or impossible, it is unknown.
func TestThrottled(t *testing.T) {
	type at struct{ wanted, lost float64 }
	lost := func(values ...float64) (out []nodeValue) {
		for _, v := range values {
			out = append(out, nodeValue{[]string{"a"}, v})
		}
		return out
	}
	for name, c := range map[string]struct {
		samples  []nodeValue
		a, b     at
		rejected int
		unknown  int
	}{
		"nobody says it":      {nil, at{}, at{}, 0, 0},
		"of one node":         {lost(500), at{2500, 500}, at{1000, 0}, 0, 0},
		"the largest counts":  {lost(300, 500, 0), at{2500, 500}, at{1000, 0}, 0, 0},
		"nothing is lost":     {lost(0), at{2000, 0}, at{1000, 0}, 0, 0},
		"NaN":                 {lost(math.NaN()), at{}, at{1000, 0}, 1, 0},
		"negative":            {lost(-1), at{}, at{1000, 0}, 1, 0},
		"more than it has":    {lost(1e9), at{}, at{1000, 0}, 1, 0},
		"of a node elsewhere": {[]nodeValue{{[]string{"z"}, 1}}, at{2000, 0}, at{1000, 0}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(config(t))
			out := s.Observe(measurement{Nodes: append(both("a", 2000, 1<<30), both("b", 1000, 1<<30)...), Throttled: c.samples}, false, 100_000,
				fakeDirectory{})
			for node, want := range map[string]at{"a": c.a, "b": c.b} {
				if u := s.current().Nodes[node]; u.Wanted != want.wanted || u.Throttled != want.lost {
					t.Errorf("node %s wanted %v and lost %v, want %+v", node, u.Wanted, u.Throttled, want)
				}
			}
			if out.Rejected != c.rejected || out.Unknown != c.unknown {
				t.Errorf("%d rejected, %d unknown; want %d, %d", out.Rejected, out.Unknown, c.rejected, c.unknown)
			}
			later := 100_000 + s.config.MaxAge.Seconds() + 1
			s.Observe(measurement{Nodes: both("a", 2000, 1<<30)}, false, later, fakeDirectory{})
			if u := s.current().Nodes["a"]; u.Wanted != 0 || u.Throttled != 0 {
				t.Errorf("what is too old counts: wanted %v, lost %v", u.Wanted, u.Throttled)
			}
		})
	}
}

// The default query gives cores, and the objective has the share of them.
func TestPrometheusThrottled(t *testing.T) {
	f := &fakePrometheus{vector: func(query string) string {
		if query == defaultQueries[throttledQuery] {
			return sample(`"instance":"10.0.0.1:9100"`, "0.5")
		}
		return twoNodes(query)
	}}
	p, _ := start(t, Config{}, httptest.NewServer(f))
	p.poll(t.Context(), klog.Background())
	var nodes []*cluster.Node
	for _, name := range []string{"a", "b"} {
		nodes = append(nodes, &cluster.Node{Name: name, Usage: p.store.current().Nodes[name]})
	}
	if got, want := (objective.Throttled{}).Cost(nodes), 0.5/(1.5+0.5+0.5); math.Abs(got-want) > 1e-9 {
		t.Errorf("the cost is %v, want %v", got, want)
	}
}
