package objective

import (
	"errors"
	"slices"

	"gnnsched/internal/cluster"
)

// Waiting measures the pods that have no node: what they request, as a share of what the cluster offers. The nodes do not show it, so
// whoever knows the queue adds it to the cost (Mix.Waiting).
type Waiting struct{}

// Name implements Term.
func (Waiting) Name() string { return "waiting" }

// About implements Described.
func (Waiting) About() string {
	return "what pods without a node request, as a share of what the nodes offer " +
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

// Capacity returns what the nodes offer that are neither cordoned nor a control plane's. Taints of pools do not matter: who tolerates them
// waits too.
func Capacity(nodes []*cluster.Node) (out cluster.Resources) {
	for _, n := range nodes {
		if !n.Unschedulable && !slices.ContainsFunc(n.Taints, cluster.Taint.ControlPlane) {
			out = out.Plus(n.Allocatable)
		}
	}
	return out
}

// NoQueue returns an error if the mix has the term waiting, for those who see the nodes alone.
func (m Mix) NoQueue() error {
	if m.Waiting() > 0 {
		return errors.New("waiting: only the simulator counts what waits; use this term with eval, tune and training")
	}
	return nil
}

// Share returns the largest share of a capacity that requests take: of CPU, memory or GPUs.
func Share(r, of cluster.Resources) float64 {
	r = r.Counted()
	return max(cluster.Fraction(r.MilliCPU, of.MilliCPU), cluster.Fraction(r.Memory, of.Memory),
		cluster.Fraction(r.TotalGPUMilli(), cluster.DeviceMilli*of.GPU))
}
