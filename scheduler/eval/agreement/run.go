package agreement

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// Config says what to repeat.
type Config struct {
	Scenario    eval.Scenario
	Seeds       []uint64 // each gets a cluster of its own
	Contenders  []Contender
	Kwokcluster string // path of the kwokcluster program
	LogDir      string // for the cluster's log; empty: it is lost
	// Progress is told how far it is, from 0 to 1, and what is going on.
	Progress func(done float64, text string)
}

// Report is what came of it.
type Report struct {
	Scenario eval.Scenario
	Seeds    []uint64
	Trials   []Trial // by seed, and by policy in the order of the contenders
}

// rate is the schedulers' limit of requests a second to the API server: none in practice.
const rate = 5000

// Run repeats every episode. Everything that it started has stopped and its clusters are
// deleted when it returns, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Scenario.OpenB != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s is the openb trace, whose pods are too many to wait for one by one", c.Scenario.Name), "gnnsched eval openb --live replays it on a cluster")
	}
	r := &Report{Scenario: c.Scenario, Seeds: c.Seeds}
	for i := range c.Seeds {
		trials, err := c.seed(ctx, i)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, fmt.Errorf("scenario %s, seed %d: %w", c.Scenario.Name, c.Seeds[i], err)
		}
		r.Trials = append(r.Trials, trials...)
	}
	return r, nil
}

// seed plays every contender's episode of a seed. One cluster does for all of them, unless nodes
// are lost on it: then each has its own.
func (c Config) seed(ctx context.Context, i int) (trials []Trial, err error) {
	together := len(c.Contenders)
	if c.Scenario.Lose > 0 {
		together = 1
	}
	for from := 0; from < len(c.Contenders); from += together {
		some, err := c.cluster(ctx, i, from, from+together)
		if err != nil {
			return nil, err
		}
		trials = append(trials, some...)
	}
	return trials, nil
}

// cluster makes a cluster with the nodes of a seed and plays the episodes of some contenders on
// it.
func (c Config) cluster(ctx context.Context, i, from, to int) (trials []Trial, err error) {
	c.Progress(c.done(i, from, 0), fmt.Sprintf("%s: starting a cluster for seed %d", c.Scenario.Name, c.Seeds[i]))
	dir, err := os.MkdirTemp("", "gnnsched-live-*")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	cl, err := c.start(ctx, dir, c.Seeds[i])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cl.Stop()) }()
	ctx, cancel := cl.Watch(ctx)
	defer cancel(nil)
	stop, err := testbed.Schedule(ctx, dir, c.scheduler(cl.Kubeconfig()), cancel)
	if err != nil {
		return nil, err
	}
	defer stop()
	trials, err = c.trials(ctx, cl.Kubeconfig(), i, from, to)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return trials, err
}

// done is how far it is, from 0 to 1, when a part of the episode of a seed and a contender is.
func (c Config) done(seed, contender int, part float64) float64 {
	return (float64(seed) + (float64(contender)+part)/float64(len(c.Contenders))) / float64(len(c.Seeds))
}

// start starts the cluster with the nodes that the simulator draws.
func (c Config) start(ctx context.Context, dir string, seed uint64) (*testbed.Cluster, error) {
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return nil, err
	}
	if err := env.Reset(seed); err != nil {
		return nil, err
	}
	y, err := pools(env.Snapshot().Nodes)
	if err != nil {
		return nil, exit.New(exit.Usage, err, "choose another scenario for --live")
	}
	file, logDir := filepath.Join(dir, "pools.yaml"), c.LogDir
	if err := os.WriteFile(file, y, 0o600); err != nil {
		return nil, fmt.Errorf("write the node pools: %w", err)
	}
	if logDir == "" {
		logDir = dir
	}
	return testbed.Start(ctx, testbed.Config{
		Program: c.Kwokcluster, Dir: filepath.Join(dir, "cluster"), Log: filepath.Join(logDir, "live-cluster.log"), Nodes: []string{"--pools", file},
	})
}

func (c Config) scheduler(kubeconfig string) server.Config {
	out := server.Config{Kubeconfig: kubeconfig, QPS: rate, PercentageOfNodesToScore: 100} // the simulator scores every node
	for _, x := range c.Contenders {
		out.Profiles = append(out.Profiles, x.Profile)
	}
	return out
}

func (c Config) trials(ctx context.Context, file string, i, from, to int) ([]Trial, error) {
	client, _, err := kubeconfig.Target{Kubeconfig: file}.Connect(ctx)
	if err != nil {
		return nil, err
	}
	var out []Trial
	for k := from; k < to; k++ {
		x := c.Contenders[k]
		t, err := try(ctx, client, c.Scenario, x, c.Seeds[i], func(done float64) {
			c.Progress(c.done(i, k, done), fmt.Sprintf("%s, seed %d: %s has placed %.0f%% of the pods", c.Scenario.Name, c.Seeds[i], x.Name, 100*done))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		out = append(out, t)
	}
	return out, nil
}
