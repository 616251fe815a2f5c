package agreement

import (
	"context"
	"fmt"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	measured "gnnsched/scheduler/usage"
)

// Config describes which episodes to repeat.
type Config struct {
	Scenario   eval.Scenario
	Seeds      []uint64         // each runs on a cluster of its own
	Contenders []Contender      // preferences count in their profiles as in the scenario
	Launcher   testbed.Launcher // starts the clusters
	LogDir     string           // folder of the cluster's log; empty: the log is deleted with the cluster
	Prometheus string           // program that schedulers ask what pods use in scenarios with usage; empty: they ask metrics.k8s.io
	// Progress is called with the overall progress, from 0 to 1, and a line about the current step.
	Progress func(done float64, text string)
}

// Report is the result of Run.
type Report struct {
	Scenario eval.Scenario
	Seeds    []uint64
	Trials   []Trial // by seed, then in the order of the contenders
}

// Run repeats every episode. When it returns, the clusters and schedulers have stopped and the
// clusters are deleted, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Scenario.Traffic != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s has traffic, which pods of a simulated cluster do not send", c.Scenario.Name),
			"leave --live out, or choose another scenario")
	}
	if c.Scenario.OpenB != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s is the openb trace, which has too many pods to wait for each of them",
			c.Scenario.Name), "gnnsched eval openb --live deploys it on a cluster")
	}
	r := &Report{Scenario: c.Scenario, Seeds: c.Seeds}
	together := len(c.Contenders) // on one cluster
	if c.Scenario.Lose > 0 {
		together = 1
	}
	for i, seed := range c.Seeds {
		for from := 0; from < len(c.Contenders); from += together {
			trials, err := c.onCluster(ctx, i, from, from+together)
			if err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				return nil, fmt.Errorf("scenario %s, seed %d: %w", c.Scenario.Name, seed, err)
			}
			r.Trials = append(r.Trials, trials...)
		}
	}
	return r, nil
}

// onCluster plays the episodes of the contenders from to to-1 on one cluster with the nodes of a
// seed.
func (c Config) onCluster(ctx context.Context, i, from, to int) (trials []Trial, err error) {
	c.Progress(c.done(i, from, 0), fmt.Sprintf("%s: starting a cluster for seed %d", c.Scenario.Name, c.Seeds[i]))
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return nil, err
	}
	if err := env.Reset(c.Seeds[i]); err != nil {
		return nil, err
	}
	if err := c.checkUsage(env); err != nil {
		return nil, err
	}
	nodes, err := nodesOf(env)
	if err != nil {
		return nil, err
	}
	bed := testbed.Config{Name: "agreement", Launcher: c.Launcher, Nodes: nodes, LogDir: c.LogDir}
	err = testbed.Run(ctx, bed, func(ctx context.Context, b *testbed.Bed) error {
		if err := c.createServices(ctx, b.Client, env.Plan()); err != nil { // before the scheduler starts
			return err
		}
		source, end, err := c.usageSource(ctx, b)
		if err != nil {
			return err
		}
		defer end()
		stop, err := b.StartScheduler(ctx, c.scheduler(source))
		if err != nil {
			return err
		}
		defer stop()
		pods, err := testbed.WatchPods(ctx, b.Client, namespace)
		if err != nil {
			return err
		}
		defer pods.Stop()
		for k := from; k < to; k++ {
			t, err := c.trial(ctx, b.Client, pods, i, k)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Contenders[k].Name, err)
			}
			trials = append(trials, t)
		}
		return nil
	})
	return trials, err
}

// done is the overall progress from 0 to 1, given the progress within one episode.
func (c Config) done(seed, contender int, part float64) float64 {
	return (float64(seed) + (float64(contender)+part)/float64(len(c.Contenders))) / float64(len(c.Seeds))
}

// nodesOf returns the nodes that the simulator has drawn.
func nodesOf(env *sim.Env) (testbed.Nodes, error) {
	y, err := pools(env.Snapshot().Nodes)
	if err != nil {
		return testbed.Nodes{}, exit.New(exit.Usage, err, "choose another scenario for --live")
	}
	return testbed.Nodes{Pools: y}, nil
}

// scheduler has a profile for each contender, with a source of measured usage. It scores every node, as the simulator does.
func (c Config) scheduler(source *measured.Config) server.Config {
	out := server.Config{PercentageOfNodesToScore: 100}
	for _, x := range c.Contenders {
		p := x.Profile
		p.Preferences = c.Scenario.PreferenceMode()
		if p.Variant != server.DefaultProfile { // upstream's profile has no use for it
			p.Usage = source
		}
		out.Profiles = append(out.Profiles, p)
	}
	return out
}
