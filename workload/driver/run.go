package driver

import (
	"context"
	"fmt"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
)

// Run applies the plan and returns what came of it. When ctx ends first, or a step fails, the
// summary holds what was done until then. Pods that stay pending are no error.
func Run(ctx context.Context, c Config) (Summary, error) {
	if err := c.complete(); err != nil {
		return Summary{}, err
	}
	r := &runner{Config: c, sum: Summary{RunID: c.RunID, Scheduler: c.SchedulerName, Namespace: c.Namespace}, fills: c.Plan.Fills(), start: c.Clock.Now()}
	var err error
	if r.sum.NamespaceCreated, err = c.namespace(ctx); err != nil {
		return r.sum, err
	}
	if err := c.namesFree(ctx); err != nil {
		return r.sum, err
	}
	if r.pods, err = watchPods(ctx, &c); err != nil {
		return r.sum, err
	}
	defer r.pods.stop()
	err = r.run(ctx)
	r.sum.Elapsed = c.Clock.Since(r.start)
	return r.sum, err
}

// runner is a run under way.
type runner struct {
	Config
	pods  *podWatch
	fills []workload.Fill // what is due
	sum   Summary
	start time.Time

	open      bool        // a fill is under way
	fill      FillSummary // the current one
	fillStart time.Time
	live      map[string]workload.Deployment // of the current fill
	order     []workload.Deployment          // all that were created in it
	asked     cluster.Resources              // by live
	before    int                            // pods due in the fills that have ended
	reported  time.Time
}

func (r *runner) run(ctx context.Context) error {
	r.begin()
	defer func() {
		if r.open {
			r.end()
		}
	}()
	for _, s := range r.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.until(ctx, s); err != nil {
			return err
		}
		if err := r.step(ctx, s); err != nil {
			return err
		}
		if err := r.Record(s); err != nil {
			return err
		}
		if s.Action == workload.Reset {
			continue
		}
		r.report(Deploying, 0, false)
		if err := r.pause(ctx, r.Interval); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

// begin starts a fill, end closes the books of one.
func (r *runner) begin() {
	r.open, r.fill, r.fillStart = true, FillSummary{}, r.Clock.Now()
	r.live, r.order, r.asked = map[string]workload.Deployment{}, nil, cluster.Resources{}
}

func (r *runner) end() {
	t, _ := r.pods.count(r.live)
	r.fill.Created, r.fill.Bound, r.fill.Pending = t.created, t.bound, t.created-t.bound
	r.fill.Reasons = sortedReasons(r.pods.reasons(r.live))
	r.fill.Load = r.load()
	r.fill.GPU = r.gpus()
	r.fill.Elapsed = r.Clock.Since(r.fillStart)
	r.before += r.fills[len(r.sum.Fills)].Pods
	r.sum.Fills = append(r.sum.Fills, r.fill)
	r.open = false
}

func (r *runner) step(ctx context.Context, s workload.Step) error {
	d := s.Deployment
	switch s.Action {
	case workload.Add:
		if err := r.create(ctx, d); err != nil {
			return err
		}
		r.live[d.Name] = d
		r.order = append(r.order, d)
		r.asked = r.asked.Plus(d.Requests())
		r.fill.Deployments++
		r.fill.Pods += d.Replicas
	case workload.Delete:
		if err := r.remove(ctx, d); err != nil {
			return err
		}
		delete(r.live, d.Name)
		r.asked = r.asked.Minus(d.Requests())
		r.fill.Deleted++
		r.fill.Pods -= d.Replicas
	case workload.Reset:
		return r.reset(ctx)
	}
	return nil
}

// reset ends the fill, removes everything that it made, and begins the next.
func (r *runner) reset(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.end()
	r.Log.Info().Int("fill", len(r.sum.Fills)).Int("bound", r.fill.Bound).Int("pending", r.fill.Pending).Msg("reset: deleting everything that was deployed")
	err := r.Cleaner.Remove(ctx, cleanup.Scope{Run: r.RunID, Namespace: r.Namespace}, func(left cleanup.Counts) {
		r.report(Resetting, left.Total(), true)
	})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	r.begin()
	return nil
}

// until waits for the time of a step.
func (r *runner) until(ctx context.Context, s workload.Step) error {
	if r.Speed == 0 {
		return nil
	}
	return r.pause(ctx, time.Duration(s.At/r.Speed*float64(time.Second))-r.Clock.Since(r.start))
}

// pause waits, and looks at the pods meanwhile.
func (r *runner) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := r.Clock.NewTimer(d)
	defer t.Stop()
	tick := r.Clock.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C():
			return nil
		case <-r.pods.changed:
			r.noteBinding()
			r.report(Deploying, 0, false)
		case <-tick.C():
			r.report(Deploying, 0, true)
		}
	}
}

// settle waits until every pod of the fill is bound, or until none has been for a while.
func (r *runner) settle(ctx context.Context) error {
	stalled := r.Clock.NewTimer(r.Settle)
	defer func() { stalled.Stop() }()
	tick := r.Clock.NewTicker(time.Second)
	defer tick.Stop()
	_, last := r.pods.count(r.live)
	for {
		r.noteBinding()
		t, progress := r.pods.count(r.live)
		if t.bound >= r.fill.Pods {
			r.report(Settling, 0, true)
			return nil
		}
		r.report(Settling, 0, false)
		if progress != last {
			last = progress
			stalled.Stop()
			stalled = r.Clock.NewTimer(r.Settle)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.pods.changed:
		case <-tick.C():
		case <-stalled.C():
			r.Log.Warn().Int("fill", len(r.sum.Fills)+1).Int("pending", r.fill.Pods-t.bound).Dur("waited", r.Settle).Msg("pods stay pending; going on without them")
			return nil
		}
	}
}
