package sim

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

// Pods that are called twice, or do not run, do not move. A pod that has moved has run for so long since it was placed, or moved last.
func TestMovedWork(t *testing.T) {
	c := config()
	c.Nodes, c.Sizes, c.Zones, c.ControlPlane, c.Initial, c.Turnover, c.Load = Exactly(2), c.Sizes[1:2], IntRange{}, false, 0, 4,
		FloatRange{0.3, 0.3}
	e := newEnv(t, c, 5)
	var at []float64
	first := -1
	err := e.Every(7, func() {
		if first < 0 {
			for m := range e.Running {
				first = m.Pod
				break
			}
		}
		if e.on[first] < 0 || len(at) == 3 {
			if len(at) < 3 {
				t.Error("the pod leaves too early for this test")
			}
			return
		}
		m := e.where(first)
		if e.Move(m, m) == nil || e.Move(cluster.Move{Pod: len(e.on) - 1}) == nil {
			t.Error("a pod moved twice, or before it came")
		}
		m.Row = 1 - m.Row
		fatal.If(t, e.Move(m))
		at = append(at, e.now)
	})
	fatal.If(t, err)
	for !e.Done() {
		e.Step(0)
	}
	cpus := float64(e.deployment(int32(first)).pod.Requests.MilliCPU) / 1000
	if o := e.Outcome().Moves; o.Moved != 3 || math.Abs(o.Work-21*cpus) > 1e-9 {
		t.Errorf("%+v at %v, want 3 moves and %v of work", o, at, 21*cpus)
	}
	c.Turnover, c.Lifetimes, c.Arrivals = 0, Lifetimes{}, Arrivals{}
	if newEnv(t, c, 5).Every(1, nil) == nil {
		t.Error("pods move where no time passes")
	}
}
