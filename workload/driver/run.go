package driver

import (
	"context"
	"fmt"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
)

// Run applies the plan and returns the outcome. If ctx ends or a step fails, the summary covers
// the steps until then. Pods that stay pending are not an error.
func Run(ctx context.Context, c Config) (Summary, error) {
	if err := c.complete(); err != nil {
		return Summary{}, err
	}
	r := &runner{
		Config: c, sum: Summary{RunID: c.RunID, Scheduler: c.SchedulerName, Bare: c.Bare, Namespace: c.Namespace}, fills: c.Plan.Fills(),
		start: c.Clock.Now(),
	}
	err := r.prepare(ctx)
	if err != nil {
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

// prepare creates what must be there before the first pod.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.replay != nil {
		r.sum.Namespace, r.sum.NamespaceCreated = r.Namespace+"-*", true
		r.stage, err = r.prepareStage(ctx)
		return err
	}
	if r.sum.NamespaceCreated, err = r.createNamespace(ctx); err != nil {
		return err
	}
	return r.checkNames(ctx)
}

// runner is the state of a run under way.
type runner struct {
	Config
	stage *stage // nil unless the pods come from a record
	pods  *podWatch
	fills []workload.Fill // of the plan
	sum   Summary         // over the fills that have ended
	start time.Time

	// The current fill.
	inFill    bool // false between end and begin
	fill      FillSummary
	fillStart time.Time
	created   []workload.Deployment          // in order
	existing  map[string]workload.Deployment // created and not deleted, without the pods that are lost
	left      map[string]workload.Deployment // created and deleted, or lost
	requested cluster.Resources              // by the existing ones
	bindings  int                            // before the fill

	podsBefore int           // planned pods of the fills that have ended
	arrived    int           // pods created in all fills
	gone       int           // pods that left in all fills
	next       time.Duration // when the next step is due, since start; used if Speed is not 0
	reported   time.Time     // of the last call of Progress
}

func (r *runner) run(ctx context.Context) error {
	r.begin()
	defer func() {
		if r.inFill {
			r.end()
		}
	}()
	for _, s := range r.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.waitUntil(ctx, s); err != nil {
			return err
		}
		if err := r.noteGone(ctx); err != nil {
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

// begin starts a fill.
func (r *runner) begin() {
	r.inFill = true
	r.pods.forgetGone()
	r.fill = FillSummary{}
	r.fillStart = r.Clock.Now()
	r.created = nil
	r.existing, r.left = map[string]workload.Deployment{}, map[string]workload.Deployment{}
	r.bindings = r.pods.everPlaced()
	r.requested = cluster.Resources{}
}

// end completes the fill's summary.
func (r *runner) end() {
	t, _ := r.pods.count(r.existing)
	r.fill.Created, r.fill.Bound = t.created, t.bound
	r.fill.Pending = t.created - t.bound
	r.fill.Reasons = reasonsOf(r.pods.of(r.existing, (*pod).pending))
	r.fill.Placed = r.pods.everPlaced() - r.bindings
	if r.stage != nil {
		r.fill.Refused = sortedReasons(r.stage.refused)
	}
	r.fill.LeftUnplaced = reasonsOf(r.pods.of(r.left, (*pod).leftUnplaced))
	r.fill.Load = r.load()
	r.fill.GPU = r.gpuSummary()
	r.fill.Elapsed = r.Clock.Since(r.fillStart)
	r.podsBefore += r.fills[len(r.sum.Fills)].Pods
	r.sum.Fills = append(r.sum.Fills, r.fill)
	r.inFill = false
}

func (r *runner) step(ctx context.Context, s workload.Step) error {
	d := s.Deployment
	switch s.Action {
	case workload.Add:
		if here, err := r.create(ctx, d); err != nil || !here {
			return err
		}
		r.existing[d.Name] = d
		r.created = append(r.created, d)
		r.requested = r.requested.Plus(d.Requests())
		r.fill.Deployments++
		r.fill.Pods += d.Replicas
		r.fill.Arrived += d.Replicas
		r.arrived += d.Replicas
	case workload.Delete:
		return r.leave(ctx, d)
	case workload.Reset:
		return r.reset(ctx)
	}
	return nil
}

// reset ends the fill, deletes everything that it created and begins the next fill.
func (r *runner) reset(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.end()
	r.Log.Info().Int("fill", len(r.sum.Fills)).Int("bound", r.fill.Bound).Int("pending", r.fill.Pending).
		Msg("reset: deleting everything that was deployed")
	err := r.Cleaner.Remove(ctx, cleanup.Scope{Run: r.RunID, Namespace: r.Namespace}, func(left cleanup.Counts) {
		r.report(Resetting, left.Total(), true)
	})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	r.begin()
	return nil
}

// waitUntil waits for the time of the step.
func (r *runner) waitUntil(ctx context.Context, s workload.Step) error {
	if r.Speed == 0 {
		return nil
	}
	r.next = r.due(s)
	return r.pause(ctx, r.next-r.Clock.Since(r.start))
}

// due returns the time of a step, since the start of the run.
func (r *runner) due(s workload.Step) time.Duration {
	return time.Duration(s.At / r.Speed * float64(time.Second))
}

// pause waits and reports progress in the meantime.
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
			if err := r.noteGone(ctx); err != nil {
				return err
			}
			r.report(Deploying, 0, false)
		case <-tick.C():
			r.report(Deploying, 0, true)
		}
	}
}

// settle waits until every pod of the fill is bound and every pod that the plan deleted is gone, or
// until no pod was created or bound for the time Settle.
func (r *runner) settle(ctx context.Context) error {
	stalled := r.Clock.NewTimer(r.Settle)
	defer func() { stalled.Stop() }()
	tick := r.Clock.NewTicker(time.Second)
	defer tick.Stop()
	_, last := r.pods.count(r.existing)
	for {
		r.noteBinding()
		if err := r.noteGone(ctx); err != nil {
			return err
		}
		t, progress := r.pods.count(r.existing)
		going, _ := r.pods.count(r.left)
		if going.created == 0 && t.bound >= r.fill.Pods {
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
			r.Log.Warn().Int("fill", len(r.sum.Fills)+1).Int("pending", r.fill.Pods-t.bound).Dur("waited", r.Settle).
				Msg("pods stay pending; continuing without them")
			return nil
		}
	}
}
