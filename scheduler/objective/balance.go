package objective

import (
	"math"

	"gnnsched/scheduler/cluster"
)

// Balance is how unevenly the available nodes are used: the standard deviation (population)
// of their CPU fractions and of their memory fractions, averaged over the two. A fraction is
// requested / allocatable. The cost is between 0 and 0.5 while no node is overcommitted.
type Balance struct{}

// Name implements Term.
func (Balance) Name() string { return "balance" }

// Cost implements Term.
func (Balance) Cost(nodes []*cluster.Node) float64 {
	var n, cpu, mem float64
	for _, v := range nodes {
		if v.Available() {
			c, m := fractions(v)
			n, cpu, mem = n+1, cpu+c, mem+m
		}
	}
	n = max(n, 1)
	cpu, mem = cpu/n, mem/n
	var varCPU, varMem float64
	for _, v := range nodes {
		if v.Available() {
			c, m := fractions(v)
			varCPU, varMem = varCPU+(c-cpu)*(c-cpu), varMem+(m-mem)*(m-mem)
		}
	}
	return (math.Sqrt(varCPU/n) + math.Sqrt(varMem/n)) / 2
}

func fractions(n *cluster.Node) (cpu, mem float64) {
	return cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory)
}

// Track implements Trackable.
func (Balance) Track(nodes []*cluster.Node) Tracker {
	b := &balanceTracker{nodes: nodes, cpu: make([]float64, len(nodes)), mem: make([]float64, len(nodes))}
	for i, v := range nodes {
		if v.Available() {
			b.n++
			b.Update(i)
		}
	}
	return b
}

// balanceTracker keeps the sums that two standard deviations need.
type balanceTracker struct {
	nodes          []*cluster.Node
	n              float64
	cpu, mem       []float64 // fractions as counted in the sums
	sumCPU, sumMem moments
}

type moments struct{ sum, squares float64 }

func (m *moments) replace(old, new float64) {
	m.sum += new - old
	m.squares += new*new - old*old
}

func (m *moments) std(n float64) float64 {
	mean := m.sum / n
	return math.Sqrt(max(m.squares/n-mean*mean, 0))
}

func (b *balanceTracker) Update(i int) {
	if !b.nodes[i].Available() {
		return
	}
	cpu, mem := fractions(b.nodes[i])
	b.sumCPU.replace(b.cpu[i], cpu)
	b.sumMem.replace(b.mem[i], mem)
	b.cpu[i], b.mem[i] = cpu, mem
}

func (b *balanceTracker) Cost() float64 {
	n := max(b.n, 1)
	return (b.sumCPU.std(n) + b.sumMem.std(n)) / 2
}
