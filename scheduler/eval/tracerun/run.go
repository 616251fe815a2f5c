package tracerun

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// Config describes a comparison.
type Config struct {
	NodesFile string  // path of an openb node list
	PodsFile  string  // path of an openb pod list; also the typical workload that GPU policies read
	Nodes     int     // the cluster has at least this many machines of the list, each kind in proportion
	Factor    float64 // the arrivals ask for this multiple of the cluster's GPUs
	Seeds     []uint64

	// GPUs is the form of the pods' requests for GPUs. With claims, the nodes offer their GPUs in ResourceSlices only. With Mixed, every other
	// machine also offers them in its capacity, and there is no comparison with the simulator, where all machines are alike.
	GPUs driver.GPURequests

	Contenders []agreement.Contender // the others are compared with the first
	Launcher   testbed.Launcher      // starts the cluster
	LogDir     string                // folder of the cluster's log; empty: the log is deleted with the cluster
	Log        zerolog.Logger
	// Settle limits how long a round waits for its last pods while none of them gets a node; 0 means ten seconds. The scheduler refuses
	// hundreds of pods a second.
	Settle time.Duration
	// Progress is called with the overall progress, from 0 to 1, and a line about the current step.
	Progress func(done float64, text string)
}

const (
	// defaultSettle is Config.Settle if it is 0.
	defaultSettle = 10 * time.Second
	// patience limits a scheduler's time to bind its first pod.
	patience = time.Minute
)

// Run deploys the arrivals of every seed once for every contender. When it returns, the cluster
// and the scheduler have stopped and the cluster is deleted, also after an error or the end of
// ctx.
func Run(ctx context.Context, c Config) (*Report, error) {
	r, err := newComparison(c)
	if err != nil {
		return nil, err
	}
	c.Progress(0, fmt.Sprintf("starting a cluster of %d nodes", len(r.nodes)))
	err = testbed.Run(ctx, testbed.Config{
		Name: "tracerun", Launcher: c.Launcher, LogDir: c.LogDir,
		Nodes: testbed.Nodes{List: c.NodesFile, Count: c.Nodes, GPUs: offerTo(c.GPUs)}, Scheduler: c.scheduler(),
	}, func(ctx context.Context, b *testbed.Bed) error {
		r.bed = b
		if err := r.warmUp(ctx); err != nil {
			return err
		}
		return r.rounds(ctx)
	})
	return r.report, err
}

// offerTo returns how the nodes offer their GPUs, as testbed.Nodes.GPUs.
func offerTo(g driver.GPURequests) string {
	switch g {
	case driver.Annotated:
		return ""
	case driver.Mixed:
		return "turns"
	}
	return "slices"
}

// scheduler is one process with a profile for each contender. It scores every node, as the
// simulator does.
func (c Config) scheduler() server.Config {
	out := server.Config{PercentageOfNodesToScore: 100}
	for _, x := range c.Contenders {
		p := x.Profile
		p.Preferences = preference.Off // the pods of the trace have none, and belong to nothing
		if p.Variant != server.DefaultProfile && !x.Running {
			p.Workload = c.PodsFile
		}
		out.Profiles = append(out.Profiles, p)
	}
	return out
}

// comparison is a comparison under way.
type comparison struct {
	Config
	nodes  []openb.Node
	pods   []openb.Pod
	bed    *testbed.Bed
	report *Report
	done   int // rounds
}

// newComparison reads the node list and the pod list.
func newComparison(c Config) (*comparison, error) {
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
		c.Settle = defaultSettle
	}
	r := &comparison{Config: c, nodes: nodes, pods: pods}
	r.report = &Report{
		PodsFile: c.PodsFile, GPURequests: c.GPUs, Factor: c.Factor, Seeds: c.Seeds, Nodes: len(nodes),
		GPUs: openb.GPUMilli(nodes) / cluster.DeviceMilli,
	}
	for _, x := range c.Contenders {
		r.report.Policies = append(r.report.Policies, x.Name)
	}
	return r, nil
}
