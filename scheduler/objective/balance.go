package objective

import (
	"math"

	"gnnsched/internal/cluster"
)

// Balance measures how unevenly the available nodes are used. It is the mean of two or three population standard deviations: of the nodes'
// CPU fractions, of their memory fractions, and of the GPU fractions of nodes with GPUs, if there are any. A fraction is requested /
// allocatable, so small and large nodes count equally. The cost is between 0 and 0.5 while no node is overcommitted.
type Balance struct{}

// Name implements Term.
func (Balance) Name() string { return "balance" }

// About implements Described.
func (Balance) About() string {
	return "mean of the standard deviations of the nodes' CPU, memory and, if any node has GPUs, GPU fractions"
}

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

// Rows of the balanced resources: CPU, memory, GPUs.
const (
	balanced = 3
	gpuRow   = 2
)

// fraction returns requested / allocatable of resource r.
func fraction(r int, n *cluster.Node) float64 {
	switch r {
	case 0:
		return cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU)
	case 1:
		return cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory)
	}
	return cluster.Fraction(n.Requested.TotalGPUMilli(), n.Allocatable.TotalGPUMilli())
}

// counts reports whether a node counts in the balance of a resource.
func counts(r int, n *cluster.Node) bool {
	return n.Available() && (r != gpuRow || n.Allocatable.GPU > 0)
}

// Track implements Trackable.
func (Balance) Track(nodes []*cluster.Node) Tracker {
	b := &balanceTracker{nodes: nodes, counted: make([][balanced]float64, len(nodes)), offers: make([]int8, len(nodes))}
	for i, v := range nodes {
		for r := range balanced {
			if counts(r, v) {
				b.sums[r].Add(0)
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
	offers  []int8                 // by node: the number of resources, from the first, in which it counts
	counted [][balanced]float64    // by node: the fractions that are in the sums
	sums    [balanced]cluster.Sums // by resource, of the nodes that count
}

func (b *balanceTracker) Update(i int) {
	for r := range int(b.offers[i]) {
		now := fraction(r, b.nodes[i])
		b.sums[r].Replace(b.counted[i][r], now)
		b.counted[i][r] = now
	}
}

func (b *balanceTracker) Cost() float64 {
	sum := b.sums[0].Std() + b.sums[1].Std()
	if b.sums[gpuRow].N == 0 {
		return sum / 2
	}
	return (sum + b.sums[gpuRow].Std()) / 3
}

// Zones measures how unevenly the zones are used. It is the mean of the population standard
// deviations of their CPU fractions and of their memory fractions. A zone's fraction is requested /
// allocatable, summed over its available nodes. Nodes without a zone do not count. The cost is
// between 0 and 0.5 while no zone is overcommitted.
type Zones struct{}

// Name implements Term.
func (Zones) Name() string { return "zones" }

// About implements Described.
func (Zones) About() string {
	return "mean of the standard deviations of the zones' CPU and memory fractions"
}

// Cost implements Term.
func (z Zones) Cost(nodes []*cluster.Node) float64 { return z.Track(nodes).Cost() }

// Track implements Trackable. Computing a cost takes time proportional to the number of zones.
func (Zones) Track(nodes []*cluster.Node) Tracker {
	t := &zoneTracker{nodes: nodes, zone: make([]int, len(nodes)), counted: make([]cluster.Resources, len(nodes))}
	rows := map[string]int{}
	for i, v := range nodes {
		t.zone[i] = -1
		if v.Zone == "" || !v.Available() {
			continue
		}
		row, known := rows[v.Zone]
		if !known {
			row = len(t.zones)
			rows[v.Zone] = row
			t.zones = append(t.zones, zone{})
		}
		t.zone[i] = row
		t.zones[row].offered = t.zones[row].offered.Plus(v.Allocatable)
		t.Update(i)
	}
	return t
}

// zone holds the sums over a zone's available nodes.
type zone struct{ offered, requested cluster.Resources }

// zoneTracker keeps the sums of each zone. They are integers, so no rounding error accumulates.
type zoneTracker struct {
	nodes   []*cluster.Node
	zone    []int               // by node: the row of its zone, or -1
	counted []cluster.Resources // by node: what is in the sums
	zones   []zone
}

func (t *zoneTracker) Update(i int) {
	if t.zone[i] < 0 {
		return
	}
	z := &t.zones[t.zone[i]]
	z.requested = z.requested.Plus(t.nodes[i].Counted().Minus(t.counted[i]))
	t.counted[i] = t.nodes[i].Counted()
}

func (t *zoneTracker) Cost() float64 {
	n := float64(max(len(t.zones), 1))
	var cpu, mem, varCPU, varMem float64
	for _, z := range t.zones {
		c, m := z.fractions()
		cpu, mem = cpu+c/n, mem+m/n
	}
	for _, z := range t.zones {
		c, m := z.fractions()
		varCPU, varMem = varCPU+(c-cpu)*(c-cpu)/n, varMem+(m-mem)*(m-mem)/n
	}
	return (math.Sqrt(varCPU) + math.Sqrt(varMem)) / 2
}

func (z zone) fractions() (cpu, mem float64) {
	return cluster.Fraction(z.requested.MilliCPU, z.offered.MilliCPU), cluster.Fraction(z.requested.Memory, z.offered.Memory)
}
