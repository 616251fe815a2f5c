package tracerun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/internal/cluster"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/workload/trace/openb"
)

// Config says what to replay.
type Config struct {
	NodesFile string // openb node list
	PodsFile  string // openb pod list, which also says what pods usually ask for
	Nodes     int    // machines, at least; a share of the list, in which each kind has its part
	Factor    float64
	Seeds     []uint64

	Contenders  []agreement.Contender // the one that the others are compared with first
	Kwokcluster string                // path of the kwokcluster program
	LogDir      string                // for the cluster's log; empty: it is lost
	Log         zerolog.Logger
	// Settle is how long the last pods may take that nothing binds; the scheduler refuses
	// hundreds a second. 0: DefaultSettle.
	Settle time.Duration
	// Progress is told how far it is, from 0 to 1, and what is going on.
	Progress func(done float64, text string)
}

// DefaultSettle is what Config means where it says nothing.
const DefaultSettle = 10 * time.Second

const (
	// rate is the schedulers' limit of requests a second to the API server: none in practice.
	rate = 5000
	// patience is how long a scheduler may take to begin.
	patience = time.Minute
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
	cl, err := testbed.Start(ctx, testbed.Config{
		Program: c.Kwokcluster, Dir: filepath.Join(dir, "cluster"), Log: filepath.Join(logDir, "replay-cluster.log"),
		Nodes: []string{"--nodes-file", c.NodesFile, "--nodes", strconv.Itoa(c.Nodes)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cl.Stop()) }()
	ctx, cancel := cl.Watch(ctx)
	defer cancel(nil)
	if r.client, r.rest, err = (kubeconfig.Target{Kubeconfig: cl.Kubeconfig()}).Connect(ctx); err != nil {
		return nil, err
	}
	stop, err := testbed.Schedule(ctx, dir, c.scheduler(cl.Kubeconfig()), cancel)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err = r.warmUp(ctx); err == nil {
		err = r.rounds(ctx)
	}
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
	if c.Settle == 0 {
		c.Settle = DefaultSettle
	}
	r := &replay{Config: c, nodes: nodes, pods: pods, report: &Report{PodsFile: c.PodsFile, Factor: c.Factor, Seeds: c.Seeds, Nodes: len(nodes), GPUs: openb.GPUMilli(nodes) / cluster.DeviceMilli}}
	for _, x := range c.Contenders {
		r.report.Policies = append(r.report.Policies, x.Name)
	}
	return r, nil
}
