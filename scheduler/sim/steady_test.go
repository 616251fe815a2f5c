package sim

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

func steadyConfig(t testing.TB, load float64) Config {
	c := openbConfig(t, 0)
	c.OpenB.Steady = &Steady{Load: load, WarmUp: 200, Duration: 2000}
	return c
}

// record is when a pod got its node.
type record struct{ at, until float64 }

// playSteady plays an episode with the first candidates. Whenever a pod is placed, no pod of those that wait before it
// may fit. It returns when each arrival got a node.
func playSteady(t *testing.T, e *Env, seed uint64) map[int]record {
	t.Helper()
	fatal.If(t, e.Reset(seed))
	plan, out := e.Plan(), map[int]record{}
	for !e.Done() {
		pod := e.Next()
		for _, w := range e.waiting[:e.at] {
			if len(e.snapshot.Feasible(plan[w].Pod, nil)) > 0 {
				t.Fatalf("at %v pod %d is tried, but %d before it fits", e.now, pod, w)
			}
		}
		if _, again := out[pod]; again {
			t.Fatalf("pod %d is placed twice", pod)
		}
		out[pod] = record{e.now, max(e.now, float64(e.arrivals.fill)) + plan[pod].Lifetime}
		e.Step(0)
	}
	return out
}

// The figures of an episode are those that follow from when each pod got its node. Pods rejected at the start
// never get one, and the cluster never holds more than it has.
func TestSteadyOutcome(t *testing.T) {
	for _, load := range []float64{0.6, 1.3} {
		e, err := New(steadyConfig(t, load))
		fatal.If(t, err)
		for seed := range uint64(5) {
			placed := playSteady(t, e, seed)
			o, plan, fill := e.Outcome(), e.Plan(), e.arrivals.fill
			from, end := float64(fill)+200, float64(fill)+2200
			overlap := func(a, b float64) float64 { return max(min(b, end)-max(a, from), 0) }
			want := SteadyOutcome{}
			var waits []float64
			for i, p := range plan {
				r, ok := placed[i]
				gpus := float64(p.Pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
				if ok {
					want.Allocation += gpus * overlap(r.at, r.until) / 2000 / 7
				} else {
					r.at = end
				}
				if i < fill {
					if !ok {
						want.Rejected++
					}
					continue
				}
				want.Waiting += overlap(p.At, r.at) / 2000
				want.GPUHours += gpus * overlap(p.At, r.at) / 3600
				if p.At >= from && p.Pod.Requests.GPUMilli > 0 {
					waits = append(waits, r.at-p.At)
				}
			}
			got := *o.Steady
			share := got.Classes[classShare]
			got.Classes = want.Classes
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 1e-9)); d != "" {
				t.Errorf("load %v, seed %d: %s", load, seed, d)
			}
			slices.Sort(waits)
			if share.Pods != len(waits) || math.Abs(share.P95-waits[int(math.Ceil(0.95*float64(len(waits))))-1]) > 1e-9 {
				t.Errorf("load %v, seed %d: %+v of %d waits", load, seed, share, len(waits))
			}
			hours, unfinished := 0.0, 0
			for c, w := range o.Steady.Classes {
				if c != classNamed {
					hours, unfinished = hours+w.GPUHours, unfinished+w.Unfinished
				}
			}
			if math.Abs(hours-o.Steady.GPUHours) > 1e-6 || unfinished+o.Steady.Rejected != o.Unscheduled {
				t.Errorf("load %v, seed %d: the classes have %v GPU hours and %d pods in the end, all pods %+v and %d", load, seed, hours, unfinished,
					o.Steady, o.Unscheduled)
			}
			if load == 1.3 && (o.Steady.Waiting == 0 || o.Waited == 0) {
				t.Errorf("seed %d: nothing waits at %v", seed, load)
			}
		}
	}
}

// Typical pods that are counted by the time for which they run are those that run long.
func TestTypicalRunning(t *testing.T) {
	c := steadyConfig(t, 1)
	c.OpenB.Pods[4].Deleted = 1e6 // two devices
	e, err := New(c)
	fatal.If(t, err)
	if pods := e.TypicalRunning().Pods(); len(pods) != 1 || pods[0].Devices != 2 {
		t.Errorf("the pods that run are %+v", pods)
	}
	if pods := e.Typical().Pods(); len(pods) != len(c.OpenB.Pods) {
		t.Errorf("the pods that arrive are %+v", pods)
	}
}

// The seed alone decides on arrivals, and a copy made on the way ends like its original.
func TestSteadyRepeats(t *testing.T) {
	e, err := New(steadyConfig(t, 1.1))
	fatal.If(t, err)
	playSteady(t, e, 3)
	want := e.Outcome()
	if e.FixedWorkload() {
		t.Error("the workload is the same on every seed")
	}
	var c Env
	for _, steps := range []int{0, 5, 60} {
		fatal.If(t, e.Reset(3))
		for range steps {
			e.Step(0)
		}
		e.CopyTo(&c)
		for range 20 {
			c.Step(len(c.Candidates()) - 1)
		}
		e.CopyTo(&c)
		for _, x := range []*Env{e, &c} {
			for !x.Done() {
				x.Step(0)
			}
			if d := cmp.Diff(want, x.Outcome(), cmpopts.EquateApprox(1e-9, 1e-12)); d != "" {
				t.Errorf("after %d steps: %s", steps, d)
			}
		}
	}
}
