package tracerun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// SteadyConfig describes a comparison with pods that come and go, as sim.Steady defines them. Factor is the offered
// load. Times are in seconds of the trace.
type SteadyConfig struct {
	Config
	WarmUp, Duration float64
	Speed            float64 // seconds of the trace that pass in one second
}

// steadyNamespace is the namespace of the pods.
const steadyNamespace = "gnnsched-steady"

// RunSteady plays the arrivals of every seed once with every contender on a test bed, and the same in the simulator. The
// report has what was measured until an error or the end of ctx; it is nil if the run could not begin. When RunSteady
// returns, cluster and scheduler have stopped.
func RunSteady(ctx context.Context, c SteadyConfig) (*SteadyReport, error) {
	if !(c.Speed > 0) || !(c.Duration > 0) || !(c.WarmUp >= 0) {
		return nil, fmt.Errorf("speed %v and duration %v must be over 0, and the warm-up %v 0 or more", c.Speed, c.Duration, c.WarmUp)
	}
	base, err := newComparison(c.Config)
	if err != nil {
		return nil, err
	}
	r := &steadyComparison{comparison: base, steady: c}
	r.out = &SteadyReport{
		PodsFile: c.PodsFile, GPURequests: c.GPUs, Load: c.Factor, Nodes: base.report.Nodes, GPUs: base.report.GPUs, Speed: c.Speed,
		WarmUp: c.WarmUp, Duration: c.Duration,
	}
	if _, err := r.draw(c.Seeds[0]); err != nil { // before a cluster starts
		return nil, err
	}
	r.Progress(0, fmt.Sprintf("starting a cluster of %d nodes", len(r.nodes)))
	err = testbed.Run(ctx, testbed.Config{
		Name: "steady", Launcher: c.Launcher, LogDir: c.LogDir,
		Nodes: testbed.Nodes{List: c.NodesFile, Count: c.Nodes, GPUs: offerTo(c.GPUs)}, Scheduler: c.scheduler(),
	}, func(ctx context.Context, b *testbed.Bed) error {
		r.bed = b
		if err := r.warmUp(ctx); err != nil {
			return err
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: steadyNamespace}}
		if _, err := b.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the namespace: %w", err)
		}
		if r.log, err = watchPods(ctx, b.Client); err != nil {
			return err
		}
		defer r.log.stop()
		return r.rounds(ctx)
	})
	return r.out, err
}

// steadyComparison is a comparison under way.
type steadyComparison struct {
	*comparison
	steady SteadyConfig
	log    *podLog
	out    *SteadyReport
}

// draw returns the pods of a seed.
func (r *steadyComparison) draw(seed uint64) (openb.Steady, error) {
	return openb.DrawSteady(r.pods, r.Factor, openb.GPUMilli(r.nodes), r.steady.WarmUp+r.steady.Duration, seed)
}

// rounds plays each seed with each contender, who take turns at being first.
func (r *steadyComparison) rounds(ctx context.Context) error {
	for i, seed := range r.Seeds {
		order := slices.Clone(r.Contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, x := range order {
			if err := r.round(ctx, x, seed); err != nil {
				return fmt.Errorf("%s, seed %d: %w", x.Name, seed, err)
			}
			r.done++
		}
	}
	return nil
}

// round plays a seed with a contender on the empty cluster, and adds the trial to the report. An interrupted round counts with its
// measurements after the warm-up.
func (r *steadyComparison) round(ctx context.Context, x agreement.Contender, seed uint64) error {
	before, err := server.Fallbacks(x.Profile.SchedulerName)
	if err != nil {
		return err
	}
	drawn, err := r.draw(seed)
	if err != nil {
		return err
	}
	p := &replay{
		client: r.bed.Client, log: r.log, profile: x.Profile.SchedulerName, pods: r.pods, drawn: drawn, gpus: r.GPUs, speed: r.steady.Speed,
		prefix: fmt.Sprintf("round-%d-", r.done+1),
		progress: func(done float64, text string) {
			rounds := float64(len(r.Seeds) * len(r.Contenders))
			r.Progress((float64(r.done)+done)/rounds, fmt.Sprintf("%s, seed %d: %s", x.Name, seed, text))
		},
	}
	var started map[string]place
	err = p.fill(ctx, func() (err error) {
		started, err = checkDevices(ctx, r.bed.Client, steadyNamespace)
		return err
	})
	if err != nil {
		return err
	}
	end, played := p.play(ctx, r.steady.WarmUp+r.steady.Duration)
	if end > r.steady.WarmUp {
		t := SteadyTrial{Policy: x.Name, Seed: seed, Measured: end - r.steady.WarmUp, timing: p.timing(r.steady.WarmUp)}
		t.Cluster = outcomeOf(p.stays(), r.steady.WarmUp, end, openb.GPUMilli(r.nodes))
		var simulated map[int]place
		if t.Simulated, simulated, err = r.simulateSteady(x, seed, t.Measured); err != nil {
			return errors.Join(played, fmt.Errorf("in the simulator: %w", err))
		}
		for i := range drawn.Running {
			t.Started++
			if started[p.name(i)] == simulated[i] {
				t.SameStart++
			}
		}
		after, err := server.Fallbacks(x.Profile.SchedulerName)
		if err != nil {
			return errors.Join(played, err)
		}
		t.Fallbacks = after - before
		r.out.Trials = append(r.out.Trials, t)
	}
	if played != nil {
		return played
	}
	if _, err := checkDevices(ctx, r.bed.Client, steadyNamespace); err != nil {
		return err
	}
	return p.clear(ctx)
}

// simulateSteady plays a contender's episode of a seed in the simulator, with the machines in the order of the cluster and the same
// arrivals, for duration seconds after the warm-up. at holds the first places of the pods by their numbers.
func (r *steadyComparison) simulateSteady(
	x agreement.Contender, seed uint64, duration float64,
) (o *sim.SteadyOutcome, at map[int]place, err error) {
	all, at, err := r.episode(x, seed, &sim.OpenB{
		Nodes: r.nodes, Pods: r.pods, InOrder: true,
		Steady: &sim.Steady{Load: r.Factor, WarmUp: r.steady.WarmUp, Duration: duration},
	})
	return all.Steady, at, err
}

// seconds returns a number of seconds as a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
