package objective

import "gnnsched/internal/cluster"

// Ordinary measures how unevenly the nodes without GPUs are used: it is Balance of these nodes alone. On a
// cluster where GPUs are to be packed, Balance of all nodes would ask for the opposite. The cost is 0 if
// every node has GPUs.
type Ordinary struct{}

// Name implements Term.
func (Ordinary) Name() string { return "ordinary" }

// About implements Described.
func (Ordinary) About() string {
	return "balance of the nodes without GPUs"
}

// Cost implements Term.
func (Ordinary) Cost(nodes []*cluster.Node) float64 {
	ordinary, _ := withoutGPUs(nodes)
	return Balance{}.Cost(ordinary)
}

// Track implements Trackable.
func (Ordinary) Track(nodes []*cluster.Node) Tracker {
	ordinary, rows := withoutGPUs(nodes)
	return ordinaryTracker{Balance{}.Track(ordinary), rows}
}

// withoutGPUs returns the nodes that offer no GPUs, and the row among them of each of nodes, or -1.
func withoutGPUs(nodes []*cluster.Node) (ordinary []*cluster.Node, rows []int) {
	rows = make([]int, len(nodes))
	for i, n := range nodes {
		if rows[i] = -1; n.Allocatable.GPU == 0 {
			rows[i] = len(ordinary)
			ordinary = append(ordinary, n)
		}
	}
	return ordinary, rows
}

// ordinaryTracker passes on the updates of the nodes that count.
type ordinaryTracker struct {
	Tracker
	rows []int
}

func (t ordinaryTracker) Update(i int) {
	if t.rows[i] >= 0 {
		t.Tracker.Update(t.rows[i])
	}
}
