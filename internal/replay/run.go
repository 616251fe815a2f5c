package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/internal/kube"
	"gnnsched/internal/live"
	"gnnsched/internal/simulated"
	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/openb"
)

// Config says what to replay.
type Config struct {
	NodesFile string // openb node list
	PodsFile  string // openb pod list, which also says what pods usually ask for
	Nodes     int    // machines, at least; a share of the list, in which each kind has its part
	Factor    float64
	Seeds     []uint64

	Contenders  []live.Contender // the one that the others are compared with first
	Kwokcluster string           // path of the kwokcluster program
	LogDir      string           // for the cluster's log; empty: it is lost
	Log         zerolog.Logger
	// Progress is told how far it is, from 0 to 1, and what is going on.
	Progress func(done float64, text string)
}

const (
	// rate is the schedulers' limit of requests a second to the API server: none in practice.
	rate = 5000
	// settle is how long the last pods may take that nothing binds; the scheduler refuses
	// hundreds a second.
	settle = 10 * time.Second
)

// Run replays every seed with every contender. Everything that it started has stopped and its
// cluster is deleted when it returns, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	r, err := newReplay(c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gnnsched-replay-*")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	c.Progress(0, fmt.Sprintf("starting a cluster of %d nodes", len(r.nodes)))
	logDir := c.LogDir
	if logDir == "" {
		logDir = dir
	}
	cl, err := simulated.Start(ctx, simulated.Config{
		Program: c.Kwokcluster, Dir: filepath.Join(dir, "cluster"), Log: filepath.Join(logDir, "replay-cluster.log"),
		Nodes: []string{"--nodes-file", c.NodesFile, "--nodes", strconv.Itoa(c.Nodes)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cl.Stop()) }()
	ctx, cancel := cl.Watch(ctx)
	defer cancel(nil)
	if r.client, r.rest, err = (kube.Target{Kubeconfig: cl.Kubeconfig()}).Connect(ctx); err != nil {
		return nil, err
	}
	stop, err := simulated.Schedule(ctx, dir, c.scheduler(cl.Kubeconfig()), cancel)
	if err != nil {
		return nil, err
	}
	defer stop()
	err = r.rounds(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return r.report, err
}

// scheduler is one process for all contenders. It looks at every node, as the simulator does.
func (c Config) scheduler(kubeconfig string) server.Config {
	out := server.Config{Kubeconfig: kubeconfig, QPS: rate, PercentageOfNodesToScore: 100}
	for _, x := range c.Contenders {
		p := x.Profile
		if p.Variant != server.DefaultProfile {
			p.Workload = c.PodsFile
		}
		out.Profiles = append(out.Profiles, p)
	}
	return out
}

// replay is a comparison under way.
type replay struct {
	Config
	nodes  []openb.Node
	pods   []openb.Pod
	client kubernetes.Interface
	rest   *rest.Config
	report *Report
	done   int // rounds
}

// newReplay reads the files.
func newReplay(c Config) (*replay, error) {
	nodes, err := openb.LoadNodes(c.NodesFile)
	if err != nil {
		return nil, err
	}
	pods, err := openb.LoadPods(c.PodsFile)
	if err != nil {
		return nil, err
	}
	if c.Nodes < 1 || c.Nodes > len(nodes) {
		return nil, fmt.Errorf("%d nodes of the %d in %s", c.Nodes, len(nodes), c.NodesFile)
	}
	nodes = openb.Sample(nodes, c.Nodes) // as kwokcluster does
	r := &replay{Config: c, nodes: nodes, pods: pods, report: &Report{PodsFile: c.PodsFile, Factor: c.Factor, Seeds: c.Seeds, Nodes: len(nodes), GPUs: openb.GPUMilli(nodes) / cluster.DeviceMilli}}
	for _, x := range c.Contenders {
		r.report.Policies = append(r.report.Policies, x.Name)
	}
	return r, nil
}

// rounds replays each seed with each contender. They take turns at who goes first, so that
// nobody always has the warmer caches.
func (r *replay) rounds(ctx context.Context) error {
	for i, seed := range r.Seeds {
		order := slices.Clone(r.Contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, x := range order {
			t, err := r.round(ctx, x, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", x.Name, seed, err)
			}
			r.report.Trials = append(r.report.Trials, t)
			r.done++
		}
	}
	return nil
}

// round deploys the arrivals of a seed on the empty cluster, measures, and removes them.
func (r *replay) round(ctx context.Context, x live.Contender, seed uint64) (Trial, error) {
	t := Trial{Policy: x.Name, Seed: seed}
	var err error
	if t.Simulated, err = r.simulate(x, seed); err != nil {
		return t, fmt.Errorf("in the simulator: %w", err)
	}
	arrivals, err := openb.Inflate(r.pods, r.Factor, openb.GPUMilli(r.nodes), seed)
	if err != nil {
		return t, err
	}
	room, err := driver.Measure(ctx, r.client, nil)
	if err != nil {
		return t, err
	}
	if got, want := room.Allocatable.TotalGPUMilli(), openb.GPUMilli(r.nodes); got != want || room.Nodes != len(r.nodes) {
		return t, fmt.Errorf("the cluster has %d nodes with %d thousandths of a GPU, not %d with %d", room.Nodes, got, len(r.nodes), want)
	}
	cleaner, err := cleanup.New(r.rest)
	if err != nil {
		return t, err
	}
	cleaner.Force = true
	before, err := plugin.Fallbacks(x.Profile.SchedulerName)
	if err != nil {
		return t, err
	}
	run := driver.NewRunID(time.Now())
	sum, err := driver.Run(ctx, driver.Config{
		Client: r.client, Cleaner: cleaner, Plan: openb.InOrder(arrivals).Plan(), Bare: true, Room: room, Settle: settle,
		SchedulerName: x.Profile.SchedulerName, RunID: run, Log: r.Log,
		Progress: func(p driver.Progress) {
			rounds := float64(len(r.Seeds) * len(r.Contenders))
			r.Progress((float64(r.done)+p.Done)/rounds, fmt.Sprintf("%s, seed %d: %d of %d pods have a node", x.Name, seed, p.Bound, p.Pods))
		},
	})
	if err != nil {
		return t, err
	}
	after, err := plugin.Fallbacks(x.Profile.SchedulerName)
	if err != nil {
		return t, err
	}
	f := sum.Fills[0]
	t.Pods, t.Bound, t.GPU, t.Binding, t.Fallbacks = f.Pods, f.Bound, *f.GPU, f.Binding, after-before
	if err := checkBooks(ctx, r.client, driver.DefaultNamespace); err != nil {
		return t, err
	}
	return t, cleaner.Remove(ctx, cleanup.Scope{Run: run}, nil)
}
