package driver

import (
	"time"

	"gnnsched/workload"
)

// noteBinding keeps the time of the last pod that was bound.
func (r *runner) noteBinding() {
	if t, _ := r.pods.count(r.live); t.bound > r.fill.Bound {
		r.fill.Bound, r.fill.Binding = t.bound, r.Clock.Since(r.fillStart)
	}
}

func (r *runner) load() workload.Load {
	return workload.LoadOf(r.Room.Used.Plus(r.asked), r.Room.Allocatable)
}

// report tells Progress, unless it was told a moment ago and nothing hangs on it.
func (r *runner) report(phase Phase, deleting int, now bool) {
	const pace = 100 * time.Millisecond
	if !now && r.Clock.Since(r.reported) < pace {
		return
	}
	r.reported = r.Clock.Now()
	fill := len(r.sum.Fills)
	if phase == Resetting {
		fill-- // its books are closed
	}
	t, _ := r.pods.count(r.live)
	p := Progress{
		Phase: phase, Fill: fill + 1, Fills: len(r.fills), Deployments: r.fill.Deployments, DeploymentsDue: r.fills[fill].Deployments,
		Pods: r.fill.Pods, Created: t.created, Bound: t.bound, Deleting: deleting,
		Load: r.load(), Elapsed: r.Clock.Since(r.start), Left: -1,
	}
	due, done := 0, r.before
	for _, f := range r.fills {
		due += f.Pods
	}
	if phase != Resetting {
		done += t.bound
	}
	if due > 0 {
		p.Done = min(1, float64(done)/float64(due))
	}
	if done > 0 {
		p.Left = time.Duration(float64(p.Elapsed) * (1 - p.Done) / p.Done)
	}
	r.Progress(p)
}
