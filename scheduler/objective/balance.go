package objective

import (
	"math"

	"gnnsched/internal/cluster"
)

// Balance is how unevenly the available nodes are used: the standard deviation (population)
// of their CPU fractions, of their memory fractions and, over the nodes that offer GPUs, of
// their GPU fractions, averaged over the two, or three where any node offers GPUs. A fraction
// is requested / allocatable, so that a node counts by how full and not by how large it is.
// The cost is between 0 and 0.5 while no node is overcommitted.
type Balance struct{}

// Name implements Term.
func (Balance) Name() string { return "balance" }

// Cost implements Term.
func (Balance) Cost(nodes []*cluster.Node) float64 {
	var sum, resources float64
	for r := range balanced {
		var n, mean, variance float64
		for _, v := range nodes {
			if counts(r, v) {
				n, mean = n+1, mean+fraction(r, v)
			}
		}
		if n == 0 && r == gpuRow {
			continue
		}
		n, resources = max(n, 1), resources+1
		mean /= n
		for _, v := range nodes {
			if counts(r, v) {
				d := fraction(r, v) - mean
				variance += d * d
			}
		}
		sum += math.Sqrt(variance / n)
	}
	return sum / resources
}

// The resources that are balanced: CPU, memory, GPUs.
const (
	balanced = 3
	gpuRow   = 2
)

func fraction(r int, n *cluster.Node) float64 {
	switch r {
	case 0:
		return cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU)
	case 1:
		return cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory)
	}
	return cluster.Fraction(n.Requested.TotalGPUMilli(), n.Allocatable.TotalGPUMilli())
}

// counts tells whether a node takes part in balancing a resource.
func counts(r int, n *cluster.Node) bool {
	return n.Available() && (r != gpuRow || n.Allocatable.GPU > 0)
}

// Track implements Trackable.
func (Balance) Track(nodes []*cluster.Node) Tracker {
	b := &balanceTracker{nodes: nodes, counted: make([][balanced]float64, len(nodes)), offers: make([]int8, len(nodes))}
	for i, v := range nodes {
		for r := range balanced {
			if counts(r, v) {
				b.n[r]++
				b.offers[i]++
			}
		}
		b.Update(i)
	}
	return b
}

// balanceTracker keeps the sums that the standard deviations need.
type balanceTracker struct {
	nodes   []*cluster.Node
	offers  []int8              // in how many of the resources, from the first, each node takes part
	counted [][balanced]float64 // fractions as counted in the sums
	n       [balanced]float64   // nodes that take part
	sums    [balanced]moments
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
	for r := range int(b.offers[i]) {
		now := fraction(r, b.nodes[i])
		b.sums[r].replace(b.counted[i][r], now)
		b.counted[i][r] = now
	}
}

func (b *balanceTracker) Cost() float64 {
	n := max(b.n[0], 1)
	sum := b.sums[0].std(n) + b.sums[1].std(n)
	if b.n[gpuRow] == 0 {
		return sum / 2
	}
	return (sum + b.sums[gpuRow].std(b.n[gpuRow])) / 3
}
