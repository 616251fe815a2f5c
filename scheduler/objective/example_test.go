package objective_test

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// idleGPUs is the share of idle GPUs on nodes that run pods.
type idleGPUs struct{}

func (idleGPUs) Name() string { return "idle-gpus" }

func (idleGPUs) Cost(nodes []*cluster.Node) float64 {
	var idle, all int64
	for _, n := range nodes {
		if n.Requested.Pods > 0 {
			idle += n.Free().GPU
		}
		all += n.Allocatable.GPU
	}
	return cluster.Fraction(idle, all)
}

// A new term is a type with a name and a cost. Once it is in Terms, users can name it.
func Example() {
	objective.Terms = append(objective.Terms, idleGPUs{})
	mix, err := objective.Parse("idle-gpus,pack=0.5")
	if err != nil {
		fmt.Println(err)
		return
	}
	var nodes []*cluster.Node
	for range 4 {
		nodes = append(nodes, &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 4, Pods: 110}})
	}
	tracker := objective.Track(mix, nodes)
	before := tracker.Cost()
	nodes[0].Requested = cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, GPU: 1, Pods: 1}
	tracker.Update(0)
	fmt.Printf("%s: the first pod raises the cost from %.4f to %.4f\n", mix.Name(), before, tracker.Cost())
	// Output: idle-gpus,pack=0.5: the first pod raises the cost from 0.0000 to 0.3125
}

// hotNodes is the share of the nodes with more than 80% of their CPU requested.
type hotNodes struct{}

func (hotNodes) Name() string { return "hot-nodes" }

func (t hotNodes) Cost(nodes []*cluster.Node) float64 { return t.Track(nodes).Cost() }

func (hotNodes) Track(nodes []*cluster.Node) objective.Tracker {
	h := &hotTracker{nodes: nodes, hot: make([]bool, len(nodes))}
	for i := range nodes {
		h.Update(i)
	}
	return h
}

type hotTracker struct {
	nodes []*cluster.Node
	hot   []bool
	count int
}

func (h *hotTracker) Update(i int) {
	n := h.nodes[i]
	hot := cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU) > 0.8
	if hot != h.hot[i] {
		if h.hot[i] = hot; hot {
			h.count++
		} else {
			h.count--
		}
	}
}

func (h *hotTracker) Cost() float64 { return float64(h.count) / float64(max(len(h.nodes), 1)) }

// A term with Track is updated in constant time when a node changes.
func ExampleTrackable() {
	var term objective.Trackable = hotNodes{}
	nodes := []*cluster.Node{
		{Allocatable: cluster.Resources{MilliCPU: 4000, Pods: 110}, Requested: cluster.Resources{MilliCPU: 3600, Pods: 3}},
		{Allocatable: cluster.Resources{MilliCPU: 4000, Pods: 110}},
	}
	tracker := term.Track(nodes)
	fmt.Println(tracker.Cost())
	nodes[0].Requested.MilliCPU = 3000
	tracker.Update(0)
	fmt.Println(tracker.Cost())
	// Output:
	// 0.5
	// 0
}
