package usage

import (
	"fmt"
	"math"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

// fakeDirectory has the nodes a and b, and pods whose workload is named after them.
type fakeDirectory struct{ pods map[string]string }

func (fakeDirectory) Nodes() map[string]nodeInfo {
	offers := cluster.Resources{MilliCPU: 4000, Memory: 8 << 30}
	return map[string]nodeInfo{
		"a": {Name: "a", Allocatable: offers}, "10.0.0.1": {Name: "a", Allocatable: offers}, "b": {Name: "b", Allocatable: offers},
	}
}

func (d fakeDirectory) Workload(namespace, pod string) (string, bool) {
	key, known := d.pods[namespace+"/"+pod]
	return key, known
}

func config(t testing.TB) Config {
	t.Helper()
	c := Config{Source: MetricsAPISource}
	fatal.If(t, c.Default())
	return c
}

// both returns samples of CPU and memory of a node.
func both(node string, cpu, memory float64) []nodeSample {
	return []nodeSample{{[]string{node}, cluster.UsedCPU, cpu}, {[]string{node}, cluster.UsedMemory, memory}}
}

func TestStoreKeepsStatistics(t *testing.T) {
	s := newStore(config(t))
	const begin = 7200.
	for i, cpu := range []float64{3000, 1000, 2000, 3000} {
		at := begin + []float64{0, 3700, 3800, 3900}[i]
		s.Observe(measurement{Nodes: both("a", cpu, 1<<30)}, false, at, fakeDirectory{})
	}
	u := s.current().Nodes["a"]
	want := cluster.Statistics{Mean: 2000, Deviation: math.Sqrt(2e6 / 3), HourMax: 3000, DayMax: 3000}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(a)) })
	if d := cmp.Diff(want, u.Measured[cluster.UsedCPU], near); d != "" {
		t.Errorf("CPU (-want +got)\n%s", d)
	}
	if u.At != begin+3900 || !u.Known[cluster.UsedMemory] || u.Known[cluster.NetworkIn] {
		t.Errorf("usage %+v", u)
	}
	if u.Capacity[cluster.NetworkIn] != 125e6 || u.Capacity[cluster.DiskWrite] != 200e6 || u.Capacity[cluster.UsedCPU] != 0 {
		t.Errorf("capacity %v", u.Capacity)
	}
	if s.current().Nodes["b"] != nil {
		t.Error("b was never measured")
	}
	s.Observe(measurement{Nodes: both("a", 500, 1<<30)}, false, begin+3900+7200, fakeDirectory{})
	if got := s.current().Nodes["a"].Measured[cluster.UsedCPU]; got.HourMax != 500 || got.DayMax != 3000 || got.Mean != 500 {
		t.Errorf("two hours later: %+v", got)
	}
	s.Observe(measurement{Nodes: both("a", 500, 1<<30)}, false, begin+100_000, fakeDirectory{})
	if got := s.current().Nodes["a"].Measured[cluster.UsedCPU]; got.DayMax != 500 {
		t.Errorf("a day later: %+v", got)
	}
}

// Each case is a second measurement after a good one. a degrades for the reason; b stays measured.
func TestStoreDegrades(t *testing.T) {
	good := append(both("a", 1000, 1<<30), both("b", 2000, 1<<30)...)
	b := both("b", 2000, 1<<30)
	for _, c := range []struct {
		name     string
		m        measurement
		failed   bool
		after    float64
		reason   degradation
		rejected int
		unknown  int
	}{
		{"fresh", measurement{Nodes: good}, false, 15, "", 0, 0},
		{"the last value is not old yet", measurement{Nodes: b}, false, 180, "", 0, 0},
		{"missing", measurement{Nodes: b}, false, 181, usageStale, 0, 0},
		{"old samples", measurement{Nodes: good, Ages: []nodeValue{{[]string{"10.0.0.1"}, 600}}}, false, 181, usageStale, 0, 0},
		{"NaN", measurement{Nodes: append(both("a", math.NaN(), 1<<30), b...)}, false, 400, usageInvalid, 1, 0},
		{"negative", measurement{Nodes: append(both("a", -1, math.Inf(-1)), b...)}, false, 400, usageInvalid, 2, 0},
		{"absurd", measurement{Nodes: append(both("a", 16_001, 32<<30+1), b...)}, false, 400, usageInvalid, 2, 0},
		{"from the future", measurement{Nodes: good, Ages: []nodeValue{{[]string{"a"}, -3600}}}, false, 400, usageInvalid, 2, 0},
		{"a clock off by a minute", measurement{Nodes: good, Ages: []nodeValue{{[]string{"a"}, -60}}}, false, 400, "", 0, 0},
		{"another cluster's names", measurement{Nodes: append(both("ip-10-9-9-9", 1, 1), b...)}, false, 400, usageStale, 0, 2},
		{"the source fails for a part", measurement{Nodes: b}, true, 400, usageFailed, 0, 0},
		{"only memory", measurement{Nodes: append(both("a", 1, 1)[1:], b...)}, false, 400, usageAbsent, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(config(t))
			first := s.Observe(measurement{Nodes: good}, false, 1000, fakeDirectory{})
			if first.Measured != 2 || len(first.Changed) != 0 {
				t.Fatalf("the good measurement: %+v", first)
			}
			got := s.Observe(c.m, c.failed, 1000+c.after, fakeDirectory{})
			if got.Rejected != c.rejected || got.Unknown != c.unknown {
				t.Errorf("rejected %d and unknown %d, want %d and %d", got.Rejected, got.Unknown, c.rejected, c.unknown)
			}
			got.Power = powerOutcome{} // see power_test.go
			want := outcome{
				Measured: 2, Degraded: map[degradation]int{}, Changed: map[degradation][]string{}, Rejected: c.rejected, Unknown: c.unknown,
			}
			if c.reason != "" {
				want.Measured, want.Degraded, want.Changed = 1, map[degradation]int{c.reason: 1}, map[degradation][]string{c.reason: {"a"}}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if again := s.Observe(c.m, c.failed, 1001+c.after, fakeDirectory{}); len(again.Changed[c.reason]) > 0 && c.reason != "" {
				t.Errorf("the same change is reported again: %+v", again.Changed)
			}
			if back := s.Observe(measurement{Nodes: good}, false, 1010+c.after, fakeDirectory{}); back.Measured != 2 || c.reason != "" &&
				len(back.Changed[""]) != 1 {
				t.Errorf("afterwards: %+v", back)
			}
		})
	}
}

// A workload's usage is the usage of one pod. Its history outlives its pods.
func TestStoreKeepsWorkloads(t *testing.T) {
	s, d := newStore(config(t)), fakeDirectory{map[string]string{"ns/web-1": "ns/Deployment/web", "ns/web-2": "ns/Deployment/web"}}
	s.Observe(measurement{Pods: []podSample{
		{"ns", "web-1", cluster.UsedCPU, 100}, {"ns", "web-2", cluster.UsedCPU, 300},
		{"ns", "web-1", cluster.UsedMemory, math.NaN()}, {"other", "web-1", cluster.UsedCPU, 5},
	}}, false, 1000, d)
	s.Observe(measurement{}, false, 90_000, d)
	p := s.current().Workloads["ns/Deployment/web"]
	if p == nil || p.Measured[cluster.UsedCPU].Mean != 200 || p.Known[cluster.UsedMemory] {
		t.Fatalf("usage %+v", p)
	}
	s.Observe(measurement{Pods: []podSample{{"ns", "web-1", cluster.UsedCPU, 400}}}, false, 1000+averageHalfLife+89_000, d)
	if got := s.current().Workloads["ns/Deployment/web"].Measured[cluster.UsedCPU]; !(got.Mean > 399 && got.Mean <= 400 &&
		got.HourMax == 400) {
		t.Errorf("much later: %+v", got)
	}
}

// After half-life the new value has half the weight.
func TestAverageHalfLife(t *testing.T) {
	var a average
	a.add(0, 100)
	a.add(averageHalfLife, 200)
	if got := a.statistics(); math.Abs(got.Mean-150) > 1e-9 || math.Abs(got.Deviation-50) > 1e-9 || got.HourMax != 200 {
		t.Errorf("%+v", got)
	}
}

// Memory is bounded for any measurements.
func TestStoreIsBounded(t *testing.T) {
	s, d := newStore(config(t)), fakeDirectory{map[string]string{}}
	for round := range 3 {
		var m measurement
		for i := range maxWorkloads {
			pod := fmt.Sprintf("p%d-%d", round, i)
			d.pods["ns/"+pod] = pod
			m.Pods = append(m.Pods, podSample{"ns", pod, cluster.UsedCPU, 1})
			m.Nodes = append(m.Nodes, both(pod, 1, 1)...)
		}
		s.Observe(m, false, 1000*float64(round), d)
		if len(s.workloads) != maxWorkloads || len(s.nodes) != 2 {
			t.Fatalf("%d workloads and %d nodes", len(s.workloads), len(s.nodes))
		}
		if s.current().Workloads[fmt.Sprintf("p%d-0", round)] == nil {
			t.Error("the workloads that were seen last are not those that are kept")
		}
	}
}

// Statistics of any history are finite and consistent.
func TestSeriesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, at := &series{}, rapid.Float64Range(0, 2e9).Draw(t, "begin")
		for range rapid.IntRange(1, 300).Draw(t, "samples") {
			at += rapid.Float64Range(0.5, 5000).Draw(t, "pause")
			s.add(at, rapid.Float64Range(0, 1e12).Draw(t, "value"))
		}
		x := s.statistics(at)
		for _, v := range []float64{x.Mean, x.Deviation, x.HourMax, x.DayMax} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%+v", x)
			}
		}
		if tolerance := 1e-6 * (1 + x.DayMax); x.Mean > x.HourMax+tolerance || x.HourMax > x.DayMax || x.Deviation > x.HourMax+tolerance {
			t.Fatalf("%+v", x)
		}
	})
}

// Throttled CPU counts with its measurement. Where it is missing or impossible, it is unknown.
func TestThrottled(t *testing.T) {
	type at struct{ wanted, lost float64 }
	lost := func(values ...float64) []nodeValue {
		return each.Map(values, func(v float64) nodeValue { return nodeValue{[]string{"a"}, v} })
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
