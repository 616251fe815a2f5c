package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/driver"
)

// director runs the rounds of a part and collects their results.
type director struct {
	config      config
	part        part
	bed         *testbed.Bed
	results     map[string]*result // by scheduler name
	explanation *explanation       // nil if nothing is explained

	line     atomic.Pointer[string] // the demo's current step, for the view
	plain    atomic.Bool            // the view was closed: print lines, although Draw is set
	reported time.Time              // when the last line was printed
}

func newDirector(c config, p part) *director {
	return &director{config: c, part: p, results: map[string]*result{
		p.learned: {scheduler: p.learned}, server.DefaultProfile: {scheduler: server.DefaultProfile},
	}}
}

// run runs every workload through both schedulers, which take turns at going first.
func (d *director) run(ctx context.Context) error {
	before, err := attempts()
	if err != nil {
		return err
	}
	for i := range d.config.Seeds {
		order := []string{d.part.learned, server.DefaultProfile}
		if i%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, name := range order {
			if err := d.round(ctx, i, name); err != nil {
				return fmt.Errorf("workload %d with %s: %w", i+1, name, err)
			}
		}
	}
	if err := d.latencies(before); err != nil {
		return err
	}
	if !d.part.explains {
		return nil
	}
	return d.explain(ctx)
}

// namespace holds the pods.
const namespace = driver.DefaultNamespace

// deploy puts the steps through a scheduler and calls inspect while the pods are there.
func (d *director) deploy(
	ctx context.Context, steps []workload.Step, scheduler, what string, inspect func(driver.FillSummary) error,
) error {
	return d.bed.Deploy(ctx, driver.Config{
		Plan: workload.Plan{Steps: steps}, SchedulerName: scheduler, Namespace: namespace, Bare: true, Static: true, Log: d.config.Log,
		Progress: func(p driver.Progress) { d.progress(ctx, progress{what, workload.Plan{Steps: steps}, p.Bound}) },
	}, inspect)
}

// round deploys one workload through one scheduler on the empty cluster, measures the result, and
// removes the workload.
func (d *director) round(ctx context.Context, i int, scheduler string) error {
	plan, err := d.part.plan(d.config.Seed + uint64(i))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s, workload %d of %d with %s: ", d.part.title, i+1, d.config.Seeds, scheduler)
	return d.deploy(ctx, plan.Steps, scheduler, what, func(fill driver.FillSummary) error {
		s, _, err := testbed.Snapshot(ctx, d.bed.Client)
		if err != nil {
			return err
		}
		r, this := d.results[scheduler], measured(s.Nodes, plan, fill)
		r.rounds = append(r.rounds, this)
		d.report(fmt.Sprintf("%sdone: %d of %s bound; %s; emptying the cluster", what, this.bound, driver.PodCount(this.pods),
			d.part.figure(this)))
		return nil
	})
}

// measured returns the figures of a round from the state of the cluster at its end.
func measured(nodes []*cluster.Node, plan workload.Plan, fill driver.FillSummary) round {
	o := sim.Measure(nodes)
	r := round{pods: fill.Pods, bound: fill.Bound, cpuStd: o.CPUStd, memoryStd: o.MemoryStd}
	for _, n := range nodes {
		r.gpus += n.Allocatable.TotalGPUMilli()
		r.allocated += n.Requested.TotalGPUMilli()
	}
	for _, step := range plan.Steps {
		r.asked += step.Deployment.Requests().TotalGPUMilli()
	}
	return r
}

// lineEvery is the time between two lines of progress without a view.
const lineEvery = 2 * time.Second

// progress is the progress of a workload.
type progress struct {
	what  string // begins the line
	plan  workload.Plan
	bound int // pods
}

// progress updates the view's line, or prints a line with the part's first figure if the last one is old.
func (d *director) progress(ctx context.Context, p progress) {
	pods := 0
	for _, f := range p.plan.Fills() {
		pods += f.Pods
	}
	text := fmt.Sprintf("%sdeploying %s", p.what, driver.PodCount(pods))
	if p.bound > 0 {
		text = fmt.Sprintf("%s%d of %s bound", p.what, p.bound, driver.PodCount(pods))
	}
	d.line.Store(&text)
	if d.viewing() || time.Since(d.reported) < lineEvery {
		return
	}
	d.reported = time.Now()
	if s, _, err := testbed.Snapshot(ctx, d.bed.Client); err == nil && p.bound > 0 {
		text += "; " + d.part.figure(measured(s.Nodes, p.plan, driver.FillSummary{Pods: pods, Bound: p.bound}))
	}
	d.report(text)
}

// figure is the first figure of the part's table, of one round.
func (p part) figure(r round) string {
	m := p.measures[0]
	return m.name + " " + m.format(m.of(result{rounds: []round{r}}))
}

// report shows a line in the view, or prints it if there is no view.
func (d *director) report(text string) {
	d.line.Store(&text)
	if !d.viewing() {
		fmt.Fprintln(d.config.Err, text)
	}
}

// viewing tells whether the view is on the terminal.
func (d *director) viewing() bool { return d.config.Draw && !d.plain.Load() }

// status returns the view's line about the demo's current step.
func (d *director) status() string {
	if s := d.line.Load(); s != nil {
		return *s
	}
	return "starting"
}
