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

// director runs the rounds and keeps what they gave.
type director struct {
	config  Config
	bed     *testbed.Bed
	results map[string]*result // by scheduler name
	started time.Time

	line     atomic.Pointer[string] // what is going on, for the view
	plain    atomic.Bool            // print lines although Live: the view was closed
	reported time.Time
}

// rounds runs every seed through both schedulers, taking turns at who goes first.
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

// round deploys one workload for one scheduler on the empty cluster, measures, and removes
// it.
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
		d.say(prefix+"done; emptying the cluster", report.Line(&f))
		return nil
	})
}

func (d *director) result(scheduler string) *result {
	r, ok := d.results[scheduler]
	if !ok {
		r = &result{Scheduler: scheduler}
		d.results[scheduler] = r
	}
	return r
}

// lineEvery is how often progress is printed where there is no view.
const lineEvery = 2 * time.Second

func (d *director) progress(ctx context.Context, prefix string, p driver.Progress) {
	text := fmt.Sprintf("%s%d of %d pods bound", prefix, p.Bound, p.Pods)
	d.line.Store(&text)
	if d.quiet() || time.Since(d.reported) < lineEvery {
		return
	}
	d.reported = time.Now()
	detail := ""
	if f, err := snapshot(ctx, d.bed.Client); err == nil {
		detail = report.Line(&f)
	}
	d.say(text, detail)
}

// say prints a line where there is no view, and leaves it for the view where there is.
func (d *director) say(text, detail string) {
	d.line.Store(&text)
	if d.quiet() {
		return
	}
	if detail != "" {
		text += "; " + detail
	}
	fmt.Fprintln(d.config.Err, text)
}

func (d *director) quiet() bool { return d.config.Live && !d.plain.Load() }

// status is the view's line of what is going on.
func (d *director) status() string {
	if s := d.line.Load(); s != nil {
		return *s
	}
	return "starting"
}

func snapshot(ctx context.Context, client kubernetes.Interface) (state.Frame, error) {
	return top.Snapshot(ctx, client)
}
