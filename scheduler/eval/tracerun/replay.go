package tracerun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// replay makes the pods of one seed come and go on a cluster, with one scheduler profile. Pods are known by their number.
type replay struct {
	driver.Config // how the pods are created
	log           *testbed.Pods
	pods          []workload.Deployment
	progress      func(done float64, text string)
	start         time.Time // of the first pod, and later of the trace's time 0

	// The rest is for pods that come and go: first those that run at the start, then the arrivals.
	plan    []openb.SteadyPod
	running int         // how many run at the start
	speed   float64     // seconds of the trace in one second
	leave   []departure // of pods that run, the next one first
	due     []time.Time // when the arrivals were due
}

// replay returns the next round.
func (r *comparison) replay(x agreement.Contender, seed uint64, pods []workload.Deployment) *replay {
	return &replay{
		Config: driver.Config{
			Client: r.client, SchedulerName: x.Profile.SchedulerName, Namespace: namespace, RunID: fmt.Sprintf("round-%d", r.done+1),
			Image: driver.DefaultImage, GPUs: r.GPUs,
		},
		log: r.log, pods: pods,
		progress: func(done float64, text string) {
			rounds := float64(len(r.Seeds) * len(r.Contenders))
			r.Progress((float64(r.done)+done)/rounds, fmt.Sprintf("%s, seed %d: %s", x.Name, seed, text))
		},
	}
}

// departure is the end of a pod's lifetime.
type departure struct {
	at   time.Time
	name string
}

// fill creates the first n pods one after another, calls report with the number of pods that have a node now and then, and returns when
// the scheduler has decided on each. The claims of all pods come before: a scheduler that saw a pod before its claim would take later pods
// first.
func (p *replay) fill(ctx context.Context, n int, report func(placed int)) error {
	p.start = time.Now()
	for _, d := range p.pods {
		if err := p.CreateClaims(ctx, d, 1); err != nil {
			return err
		}
	}
	for _, d := range p.pods[:n] {
		if err := p.CreatePods(ctx, d, 1); err != nil {
			return err
		}
		report(p.log.Counts().Placed)
	}
	return p.log.Wait(ctx, "the scheduler decided on no pod", func() (bool, int) {
		c := p.log.Counts()
		report(c.Placed)
		return c.Seen == n && c.Pending == 0, c.Seen - c.Pending
	})
}

// reject removes the pods that fit nowhere.
func (p *replay) reject(ctx context.Context) error {
	if err := p.log.DeleteAll(ctx, "spec.nodeName="); err != nil {
		return err
	}
	return p.log.Wait(ctx, "the pods that were rejected do not leave", func() (bool, int) {
		n := p.log.Counts().Waiting
		return n == 0, -n
	})
}

// play lets the trace run until the given second. It returns the trace's time at the end, also after an error.
func (p *replay) play(ctx context.Context, until float64) (end float64, err error) {
	p.start = time.Now()
	arrival := map[string]int{}
	for i, d := range p.pods {
		switch s := p.log.Seen(d.Name); {
		case i >= p.running:
			arrival[d.Name] = i
		case placed(s) && s.Left.IsZero():
			p.leaveAt(departure{p.at(p.plan[i].Lifetime), d.Name})
		}
	}
	stop := p.at(until)
	for next := p.running; ; {
		for name, bound := range p.log.TakeBound() {
			if i, arrived := arrival[name]; arrived {
				p.leaveAt(departure{bound.Add(seconds(p.plan[i].Lifetime / p.speed)), name})
			}
		}
		due := stop
		arrives := next < len(p.plan) && p.at(p.plan[next].At).Before(due)
		if arrives {
			due = p.at(p.plan[next].At)
		}
		leaves := len(p.leave) > 0 && p.leave[0].at.Before(due)
		if leaves {
			due = p.leave[0].at
		}
		waited, err := p.log.Sleep(ctx, time.Until(due))
		if err == nil && !time.Now().Before(stop) {
			return until, nil // later events do not count
		}
		switch {
		case err != nil:
			return p.time(time.Now()), err
		case waited: // a pod may have got a node since then
		case leaves:
			if err = p.log.Delete(ctx, p.leave[0].name); err == nil {
				p.leave = p.leave[1:]
			}
		case arrives:
			p.due = append(p.due, due)
			if err = p.CreatePods(ctx, p.pods[next], 1); err == nil {
				next++
			}
		}
		if err != nil {
			return p.time(time.Now()), err
		}
		p.report(until)
	}
}

func (p *replay) report(until float64) {
	now := p.time(time.Now())
	c := p.log.Counts()
	p.progress(min(now/until, 1), fmt.Sprintf("%.1f of %.1f hours of the trace, %d pods came, %d exist",
		now/3600, until/3600, c.Seen, c.Existing))
}

// at returns the time at which a time of the trace is.
func (p *replay) at(t float64) time.Time { return p.start.Add(seconds(t / p.speed)) }

// time is the inverse of at.
func (p *replay) time(t time.Time) float64 { return t.Sub(p.start).Seconds() * p.speed }

// leaveAt notes a departure.
func (p *replay) leaveAt(d departure) {
	i, _ := slices.BinarySearchFunc(p.leave, d, func(a, b departure) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name))
	})
	p.leave = slices.Insert(p.leave, i, d)
}
