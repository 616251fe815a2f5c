package meter

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

func node(cores int64) *cluster.Node {
	return &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 1000 * cores, Memory: 8 << 30, Pods: 10}}
}

func constant(cores, work float64) Pod {
	return Pod{Model: &usage.Model{Curves: [usage.Dimensions]usage.Curve{usage.CPU: usage.Constant(cores)}, Work: work},
		Request: cluster.Resources{MilliCPU: 1000}}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Two services and a batch job want 8 of a node's 4 cores. Another node is idle, a third does not count.
func TestTick(t *testing.T) {
	away := node(4)
	away.Unschedulable = true
	nodes := []*cluster.Node{node(4), node(4), away}
	m := New(Config{Tick: 60, Pods: 4}, nodes)
	m.Place(0, 0, constant(1, 0), 0)
	m.Place(1, 0, constant(4, 0), 0)
	m.Place(2, 0, constant(3, 150), 0)
	m.Place(3, 2, constant(4, 0), 0)
	for i := range 2 {
		m.Tick(60 * float64(i))
	}
	got := m.Totals() // of 4 cores the services get 1 and 1.5, the job 1.5
	near(t, "wanted", got.Wanted, 5*120)
	near(t, "throttled", got.Throttled, 2.5*120)
	near(t, "cpu", got.CPU, 4*120)
	near(t, "capacity", got.Capacity, 8*120)
	near(t, "joules", got.Joules, (1+0.2)*4*3.3*120) // one node is full, the other idle
	near(t, "hot time", got.HotTime, 120)
	near(t, "node time", got.NodeTime, 240)
	near(t, "imbalance", got.Imbalance, 0.5*120)
	near(t, "in use", got.Used, 0.5*120)
	near(t, "batch wanted", got.BatchWanted, 3*120)
	near(t, "batch got", got.BatchGot, 1.5*120)
	if u := nodes[0].Usage; u.Measured[cluster.UsedCPU].Mean != 4000 || u.Throttled != 2500 || u.At != 60 {
		t.Errorf("measured %+v", u)
	}
	if ended := m.Ended(); len(ended) != 1 || ended[0] != 2 || len(m.Ended()) != 0 || got.Finished != 1 {
		t.Errorf("ended %v, %+v", ended, got)
	}
	m.Remove(2, 0)
	m.Place(2, 1, Pod{Request: cluster.Resources{MilliCPU: 500, Memory: 1 << 30}}, 120)
	m.Tick(120)
	near(t, "a pod without a model", m.rows[1].used[usage.CPU], 0.5)
	near(t, "throttled afterwards", m.Totals().Throttled-got.Throttled, 60)
}

// A job on a node that gives it a half takes twice as long; a limit is no loss.
func TestBatchTakesLonger(t *testing.T) {
	for _, others := range []int{0, 1} {
		m := New(Config{Tick: 10, Pods: 2}, []*cluster.Node{node(2)})
		m.Place(0, 0, constant(2, 400), 0)
		if others > 0 {
			m.Place(1, 0, constant(2, 0), 0)
		}
		ticks := 0
		for ; len(m.ended) == 0; ticks++ {
			m.Tick(10 * float64(ticks))
		}
		if want := 20 * (1 + others); ticks != want {
			t.Errorf("beside %d: %d ticks, want %d", others, ticks, want)
		}
	}
	m := New(Config{Tick: 10, Pods: 1}, []*cluster.Node{node(2)})
	limited := constant(2, 0)
	limited.Limit = 500
	m.Place(0, 0, limited, 0)
	m.Tick(0)
	if got := m.Totals(); got.Throttled != 0 || got.CPU != 5 {
		t.Errorf("%+v", got)
	}
}

func TestStatistics(t *testing.T) {
	r := row{node: node(1), history: newHistory(100)}
	measure := func(at, x float64) {
		r.used[usage.DiskRead] = x
		r.measure(at)
	}
	for i, x := range []float64{9, 1, 2, 3} { // the window has the last three
		measure(100*float64(i), x)
	}
	got := r.node.Usage.Measured[cluster.DiskRead]
	near(t, "mean", got.Mean, 2)
	near(t, "deviation", got.Deviation, math.Sqrt(2.0/3))
	near(t, "trend", got.Trend, 2)
	near(t, "maximum of the hour", got.HourMax, 9)
	measure(4000, 0)
	measure(8000, 0)
	got = r.node.Usage.Measured[cluster.DiskRead]
	near(t, "maximum of a later hour", got.HourMax, 0)
	near(t, "maximum of the day", got.DayMax, 9)
}
