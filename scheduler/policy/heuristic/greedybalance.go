package heuristic

import (
	"gnnsched/internal/cluster"
)

var greedyBalance = Heuristic{
	Name:  mostEven{}.Name(),
	About: "the node that leaves utilization most even after this one pod",
	New:   fixed(mostEven{}), RandomTies: true,
}

// mostEven chooses the node whose placement leaves objective.Balance lowest: the mean of the
// standard deviations of the available nodes' CPU and memory fractions. It looks one pod ahead. A
// network that learns balance is worth its cost only if it does better.
type mostEven struct{}

// Name implements policy.Policy.
func (mostEven) Name() string { return "greedy-balance" }

// Score implements policy.Policy. The score is how much the placement lowers the sum of the two
// deviations, times the number of nodes. Scoring differences keeps the precision of float32.
func (mostEven) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	var cpu, mem cluster.Sums
	for _, n := range s.Nodes {
		if n.Available() {
			cpu.Add(cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU))
			mem.Add(cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory))
		}
	}
	now, request := cpu.Std()+mem.Std(), pod.Requests.Counted()
	for i, v := range candidates {
		n := s.Nodes[v]
		if !n.Available() { // not part of the objective
			scores[i] = 0
			continue
		}
		used, has := n.Counted(), n.Allocatable
		c := cpu.Moved(cluster.Fraction(used.MilliCPU, has.MilliCPU), cluster.Fraction(request.MilliCPU, has.MilliCPU))
		m := mem.Moved(cluster.Fraction(used.Memory, has.Memory), cluster.Fraction(request.Memory, has.Memory))
		scores[i] = float32(float64(len(s.Nodes)) * (now - c.Std() - m.Std()))
	}
	return nil
}
