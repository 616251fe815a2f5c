package policy

import (
	"math"

	"gnnsched/internal/cluster"
)

// GreedyBalance chooses the node that leaves objective balance lowest after this placement:
// the mean of the standard deviations of the available nodes' CPU and memory fractions. It
// is what a network that learns balance has to see beyond, since it looks one pod ahead.
type GreedyBalance struct{}

// Name implements Policy.
func (GreedyBalance) Name() string { return "greedy-balance" }

// Score implements Policy. A score is how much the placement lowers that sum, times the nodes.
func (GreedyBalance) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	var cpu, mem spread
	for _, n := range s.Nodes {
		if n.Available() {
			cpu.add(cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU))
			mem.add(cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory))
		}
	}
	now := cpu.std() + mem.std()
	for i, v := range candidates {
		n := s.Nodes[v]
		if !n.Available() { // the objective does not count it
			scores[i] = 0
			continue
		}
		c := cpu.moved(cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(pod.Requests.MilliCPU, n.Allocatable.MilliCPU))
		m := mem.moved(cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory), cluster.Fraction(pod.Requests.Memory, n.Allocatable.Memory))
		scores[i] = float32(float64(len(s.Nodes)) * (now - c.std() - m.std())) // the difference, so that float32 keeps it
	}
	return nil
}

// spread is the sums that a standard deviation needs.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+x*x }

// moved is the spread after one of the values, x, has grown by d.
func (s spread) moved(x, d float64) spread {
	return spread{s.n, s.sum + d, s.squares + d*(2*x+d)}
}

func (s spread) std() float64 {
	mean := s.sum / max(s.n, 1)
	return math.Sqrt(max(s.squares/max(s.n, 1)-mean*mean, 0))
}
