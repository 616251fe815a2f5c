package objective

import "gnnsched/internal/cluster"

// Waiting measures the pods that have no node: what they request, as a share of what the cluster offers. The nodes do not show it, so
// whoever knows the queue adds it to the cost (Mix.Waiting).
type Waiting struct{}

// Name implements Term.
func (Waiting) Name() string { return "waiting" }

// About implements Described.
func (Waiting) About() string {
	return "what pods without a node request, as a share of what the cluster offers " +
		"(of CPU, memory and GPUs the one of which they request most)"
}

// Cost implements Term. It is 0.
func (Waiting) Cost([]*cluster.Node) float64 { return 0 }

// Waiting returns the weight of the term waiting in the mix; 0 if it is not there.
func (m Mix) Waiting() float64 {
	for _, w := range m {
		if w.Term == (Waiting{}) {
			return w.Weight
		}
	}
	return 0
}

// Capacity returns what the available nodes offer, and all GPUs.
func Capacity(nodes []*cluster.Node) (out cluster.Resources) {
	for _, n := range nodes {
		if n.Available() {
			out = out.Plus(n.Allocatable)
		} else {
			out.GPU += n.Allocatable.GPU
		}
	}
	return out
}

// Share returns the largest share of a capacity that requests take: of CPU, memory or GPUs.
func Share(r, of cluster.Resources) float64 {
	r = r.Counted()
	return max(cluster.Fraction(r.MilliCPU, of.MilliCPU), cluster.Fraction(r.Memory, of.Memory),
		cluster.Fraction(r.TotalGPUMilli(), cluster.DeviceMilli*of.GPU))
}
