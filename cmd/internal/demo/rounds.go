package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"gnnsched/cmd/internal/top"
	"gnnsched/cmd/internal/top/report"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/workload"
	"gnnsched/workload/driver"
)

// director runs the rounds and collects their results.
type director struct {
	config  Config
	bed     *testbed.Bed
	results map[string]*result // by scheduler name
	started time.Time

	line     atomic.Pointer[string] // what the demo is doing, for the view
	plain    atomic.Bool            // the view was closed: print lines, although Draw is set
	reported time.Time              // when the last line was printed
}

// rounds runs every workload through both schedulers. They take turns at going first.
func (d *director) rounds(ctx context.Context) error {
	for seed := range d.config.Seeds {
		order := []string{d.config.Variant, server.DefaultProfile}
		if seed%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, name := range order {
			if err := d.round(ctx, seed, name); err != nil {
				return fmt.Errorf("workload %d with %s: %w", seed+1, name, err)
			}
		}
	}
	return nil
}

// round deploys one workload through one scheduler on the empty cluster, measures the result, and
// removes the workload.
func (d *director) round(ctx context.Context, seed int, scheduler string) error {
	room, err := d.bed.Room(ctx)
	if err != nil {
		return err
	}
	plan, err := workload.Generator{
		Seed: d.config.Seed + uint64(seed), Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 1,
		Target:   workload.Load{CPU: d.config.Load, Memory: d.config.Load, Pods: d.config.Load},
		Capacity: room.Allocatable, Used: room.Used,
	}.Plan()
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("workload %d of %d with %s: ", seed+1, d.config.Seeds, scheduler)
	return d.bed.Deploy(ctx, driver.Config{
		Plan: plan, SchedulerName: scheduler, Room: room, Log: d.config.Log,
		Progress: func(p driver.Progress) { d.progress(ctx, prefix, p) },
	}, func(fill driver.FillSummary) error {
		f, err := snapshot(ctx, d.bed.Client)
		if err != nil {
			return err
		}
		d.result(scheduler).add(fill, f.CPUSpread.Std)
		d.report(prefix+"done; emptying the cluster", report.Line(&f))
		return nil
	})
}

// result returns the results of a scheduler so far.
func (d *director) result(scheduler string) *result {
	r, ok := d.results[scheduler]
	if !ok {
		r = &result{scheduler: scheduler}
		d.results[scheduler] = r
	}
	return r
}

// lineEvery is the time between two lines of progress without a view.
const lineEvery = 2 * time.Second

// progress updates the view's line, or prints a line if the last one is old.
func (d *director) progress(ctx context.Context, prefix string, p driver.Progress) {
	text := fmt.Sprintf("%s%d of %d pods bound", prefix, p.Bound, p.Pods)
	d.line.Store(&text)
	if d.viewing() || time.Since(d.reported) < lineEvery {
		return
	}
	d.reported = time.Now()
	detail := ""
	if f, err := snapshot(ctx, d.bed.Client); err == nil {
		detail = report.Line(&f)
	}
	d.report(text, detail)
}

// report shows a line in the view, or prints it with its detail if there is no view.
func (d *director) report(text, detail string) {
	d.line.Store(&text)
	if d.viewing() {
		return
	}
	if detail != "" {
		text += "; " + detail
	}
	fmt.Fprintln(d.config.Err, text)
}

// viewing tells whether the view is on the terminal.
func (d *director) viewing() bool { return d.config.Draw && !d.plain.Load() }

// status returns the view's line about what the demo is doing.
func (d *director) status() string {
	if s := d.line.Load(); s != nil {
		return *s
	}
	return "starting"
}

func snapshot(ctx context.Context, client kubernetes.Interface) (state.Frame, error) {
	return top.Snapshot(ctx, client)
}
