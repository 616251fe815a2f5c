package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// metrics names the metrics that can be measured on a cluster at the end of an episode.
var metrics = []string{"cost", "cpuStd", "memoryStd", "unscheduled", "nodesInUse", "gpuIdle"}

// metrics returns the metrics of the report.
func (r *Report) metrics() (out []eval.Metric) {
	for _, name := range metrics {
		if m, err := eval.FindMetric(name); err == nil && (name != "gpuIdle" || r.gpus()) {
			out = append(out, m)
		}
	}
	return out
}

// gpus tells whether the nodes have GPUs.
func (r *Report) gpus() bool { return r.Trials[0].Simulated.GPU != nil }

// Write writes the report for a terminal, or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	p := &eval.Page{Markdown: markdown}
	p.Title(r.Scenario.Name+" on a cluster with the real kube-scheduler", r.Scenario.About)
	p.Printf("\n\nHow many pods of %s got the same node as in the simulator, and how many a node that the simulator's\n"+
		"policy would have chosen in the same state:\n\n", r.seeds())
	p.Table(r.placements())
	p.Printf("\nMeans at the end of the episodes:\n\n")
	p.Table(r.means())
	p.Printf("\n")
	return p.Write(w)
}

func (r *Report) seeds() string {
	if n := len(r.Seeds); n > 1 {
		return fmt.Sprintf("seeds %d to %d", r.Seeds[0], r.Seeds[n-1])
	}
	return fmt.Sprintf("seed %d", r.Seeds[0])
}

// MarshalJSON implements json.Marshaler with the scenario's name and description and the trials.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Scenario string  `json:"scenario"`
		About    string  `json:"about"`
		Trials   []Trial `json:"trials"`
	}{r.Scenario.Name, r.Scenario.About, r.Trials})
}

// policies returns the names of the contenders in their order.
func (r *Report) policies() []string {
	return choice.Names(r.Trials[:len(r.Trials)/len(r.Seeds)], func(t Trial) string { return t.Policy })
}

// placements returns the rows of the first table.
func (r *Report) placements() [][]string {
	rows := [][]string{{"policy", "pods", "same node", "same decision"}}
	for _, name := range r.policies() {
		var placed, same, best int
		for _, t := range r.Trials {
			if t.Policy == name {
				placed += t.Placed
				same += t.Same
				best += t.Best
			}
		}
		rows = append(rows, []string{name, strconv.Itoa(placed), share(same, placed), share(best, placed)})
	}
	return rows
}

// share formats n with its percentage of another number.
func share(n, of int) string {
	return fmt.Sprintf("%d (%.1f%%)", n, 100*float64(n)/float64(max(of, 1)))
}

// means returns the rows of the second table.
func (r *Report) means() [][]string {
	rows := [][]string{{"metric", "policy", "simulator", "cluster", "difference", "relative"}}
	simulator, cluster := r.comparison(simulated), r.comparison(live)
	for _, m := range r.metrics() {
		for i, x := range simulator.Results {
			s, c := x.Mean(m), cluster.Results[i].Mean(m)
			row := []string{m.Title, x.Name, decimal(s, m), decimal(c, m), fmt.Sprintf("%+.*f", m.Digits, c-s), ""}
			if s != 0 {
				row[5] = fmt.Sprintf("%+.1f%%", 100*(c/s-1))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func decimal(v float64, m eval.Metric) string { return strconv.FormatFloat(v, 'f', m.Digits, 64) }

func live(t Trial) sim.Outcome      { return t.Cluster }
func simulated(t Trial) sim.Outcome { return t.Simulated }

// comparison returns the outcomes on one of the two sides.
func (r *Report) comparison(of func(Trial) sim.Outcome) *eval.Comparison {
	return eval.Collect(r.Trials, func(t Trial) (string, uint64, sim.Outcome) { return t.Policy, t.Seed, of(t) })
}

// measured measures the nodes at the end of an episode. GPUs with partitions do not count: claims hold them, and nodes do not show that.
func measured(nodes []*cluster.Node, c sim.Config) sim.Outcome {
	if c.MIG != nil {
		nodes = slices.Clone(nodes)
		for i, n := range nodes {
			bare := *n
			bare.Allocatable.GPU, bare.Requested.GPU, bare.Requested.GPUMilli = 0, 0, 0
			nodes[i] = &bare
		}
	}
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	return o
}

// devicesInUse returns the allocated fraction of the GPU capacity, or nil without GPUs.
func devicesInUse(nodes []*cluster.Node) *sim.GPUOutcome {
	var used, all int64
	for _, n := range nodes {
		if n.Available() {
			used += n.Requested.TotalGPUMilli()
			all += n.Allocatable.TotalGPUMilli()
		}
	}
	if all == 0 {
		return nil
	}
	return &sim.GPUOutcome{Allocation: cluster.Fraction(used, all)}
}

// snapshot reads the cluster from the API server. Nodes have their names in the simulator and are
// sorted by them. unbound is the number of pods without a node.
func snapshot(ctx context.Context, client kubernetes.Interface) (out []*cluster.Node, unbound int, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	all, unbound, err := kube.Snapshot(nodes.Items, pods.Items)
	for _, n := range all.Nodes {
		n.Name = poolName(n.Name)
	}
	slices.SortFunc(all.Nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return all.Nodes, unbound, err
}

// onlyNode is the suffix that kwokcluster appends to the name of a pool's first node.
const onlyNode = "-0"

// nodeName returns the name of the node in a pool of one node.
func nodeName(pool string) string { return pool + onlyNode }

// poolName returns the name of the pool whose only node has a name.
func poolName(node string) string { return strings.TrimSuffix(node, onlyNode) }
