package objective

import "gnnsched/internal/cluster"

// Pack measures the number of nodes in use: the fraction of the available nodes that run pods, 0 to 1.
type Pack struct{}

// Name implements Term.
func (Pack) Name() string { return "pack" }

// About implements Described.
func (Pack) About() string {
	return "share of the available nodes that run pods"
}

// Cost implements Term.
func (Pack) Cost(nodes []*cluster.Node) float64 {
	var n, used float64
	for _, v := range nodes {
		if v.Available() {
			n++
			used += inUse(v)
		}
	}
	return used / max(n, 1)
}

// inUse returns 1 if the node runs pods, else 0.
func inUse(n *cluster.Node) float64 {
	if n.Requested.Pods > 0 {
		return 1
	}
	return 0
}

// Track implements Trackable.
func (Pack) Track(nodes []*cluster.Node) Tracker {
	p := &packTracker{nodes: nodes, used: make([]float64, len(nodes))}
	for i, v := range nodes {
		if v.Available() {
			p.n++
			p.Update(i)
		}
	}
	return p
}

// packTracker keeps the number of nodes in use.
type packTracker struct {
	nodes  []*cluster.Node
	used   []float64 // by node: 1 if it counts as in use
	n, sum float64   // available nodes; those in use
}

func (p *packTracker) Update(i int) {
	if p.nodes[i].Available() {
		used := inUse(p.nodes[i])
		p.sum += used - p.used[i]
		p.used[i] = used
	}
}

func (p *packTracker) Cost() float64 { return p.sum / max(p.n, 1) }
