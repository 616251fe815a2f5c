package objective

import (
	"math"

	"gnnsched/internal/cluster"
)

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
