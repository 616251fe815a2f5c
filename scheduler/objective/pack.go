package objective

import "gnnsched/internal/cluster"

// Pack is the share of the available nodes that run anything: 0 for none, 1 for all.
type Pack struct{}

// Name implements Term.
func (Pack) Name() string { return "pack" }

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

type packTracker struct {
	nodes  []*cluster.Node
	used   []float64 // 1 for nodes in use
	n, sum float64
}

func (p *packTracker) Update(i int) {
	if p.nodes[i].Available() {
		used := inUse(p.nodes[i])
		p.sum += used - p.used[i]
		p.used[i] = used
	}
}

func (p *packTracker) Cost() float64 { return p.sum / max(p.n, 1) }
