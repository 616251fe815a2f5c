package tracerun

import (
	"context"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
	// Progress is called with the overall progress, from 0 to 1, and a line about the current step.
	Progress func(done float64, text string)
}

// namespace is the namespace of the pods.
const namespace = driver.DefaultNamespace

// Run deploys the arrivals of every seed once for every contender. When it returns, the cluster
// and the scheduler have stopped and the cluster is deleted, also after an error or the end of
// ctx.
func Run(ctx context.Context, c Config) (*Report, error) {
	r, err := newComparison(c)
	if err != nil {
		return nil, err
	}
	return r.report, r.play(ctx, "tracerun", r.round)
}

// play starts a cluster and calls round for each seed with each contender. The contenders take turns at being first, so that
// none always has the warmer caches.
func (r *comparison) play(ctx context.Context, name string, round func(context.Context, agreement.Contender, uint64) error) error {
	r.Progress(0, fmt.Sprintf("starting a cluster of %d nodes", len(r.nodes)))
	return testbed.Run(ctx, testbed.Config{
		Name: name, Launcher: r.Launcher, LogDir: r.LogDir,
		Nodes: testbed.Nodes{List: r.NodesFile, Count: r.Nodes, GPUs: forms[r.GPUs].offer}, Scheduler: r.scheduler(),
	}, func(ctx context.Context, b *testbed.Bed) error {
		if err := r.connect(ctx, b.Client); err != nil {
			return err
		}
		defer r.log.Stop()
		if err := r.warmUp(ctx); err != nil {
			return err
		}
		for i, seed := range r.Seeds {
			order := slices.Clone(r.Contenders)
			if i%2 == 1 {
				slices.Reverse(order)
			}
			for _, x := range order {
				if err := round(ctx, x, seed); err != nil {
					return fmt.Errorf("%s, seed %d: %w", x.Name, seed, err)
				}
				r.done++
			}
		}
		return nil
	})
}

// connect checks the cluster's nodes, creates the namespace and starts the log.
func (r *comparison) connect(ctx context.Context, client kubernetes.Interface) error {
	room, err := driver.Measure(ctx, client, nil)
	if err != nil {
		return err
	}
	if got, want := room.Allocatable.TotalGPUMilli(), openb.GPUMilli(r.nodes); got != want || room.Nodes != len(r.nodes) {
		return fmt.Errorf("the cluster has %d nodes with %d thousandths of a GPU, not %d with %d", room.Nodes, got, len(r.nodes), want)
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the namespace: %w", err)
	}
	r.client = client
	r.log, err = testbed.WatchPods(ctx, client, namespace)
	return err
}

// forms has for each form of the pods' requests but annotations how the nodes offer GPUs, as testbed.Nodes.GPUs, and a description.
var forms = map[driver.GPURequests]struct{ offer, text string }{
	driver.Claimed:  {"slices", ", GPUs by claims"},
	driver.Extended: {"slices", ", whole GPUs by extended resources and shares by claims"},
	driver.Mixed:    {"turns", ", GPUs by claims, extended resources and annotations"},
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
	client kubernetes.Interface
	log    *testbed.Pods
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
