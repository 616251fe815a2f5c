package objective

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// The terms of this file are about what nodes were last measured to use (cluster.Node.Usage), not about what
// pods request. A placement does not change them; the next measurement does. So its reward comes later: as
// the fall of the cost until the next decision.
//
// Only available nodes that were measured count, and the costs are 0 without any.

// measured are the terms about measured usage.
var measured = []Term{usageBalance{}, hotNodes{}, Throttled{}, unusedCPU{}}

// Measured reports whether a term is about measured usage.
func Measured(t Term) bool {
	return slices.ContainsFunc(measured, func(m Term) bool { return m.Name() == t.Name() })
}

// measuredTracker computes a term about measured usage again only after a measurement.
type measuredTracker struct {
	term  Term
	nodes []*cluster.Node
	at    float64 // sum of the times of the measurements behind the cost
	n     int     // number of nodes that counted
	cost  float64

	told  bool // see Told
	stale bool // it was told of a measurement since
}

// trackMeasured returns the tracker of a term that depends only on measurements and on which nodes count.
func trackMeasured(t Term, nodes []*cluster.Node) Tracker {
	return &measuredTracker{term: t, nodes: nodes, n: -1}
}

func (*measuredTracker) Update(int) {}

func (m *measuredTracker) Cost() float64 {
	if m.told {
		if m.stale {
			m.cost, m.stale = m.term.Cost(m.nodes), false
		}
		return m.cost
	}
	at, n := 0.0, 0
	for _, v := range m.nodes {
		if counted(v) {
			at, n = at+v.Usage.At, n+1
		}
	}
	if at != m.at || n != m.n {
		m.at, m.n, m.cost = at, n, m.term.Cost(m.nodes)
	}
	return m.cost
}

// Told promises a call of the returned function after each measurement of the tracked nodes, so that the tracker need not look for one
// whenever it is asked for the cost.
func Told(t Tracker) (measured func()) {
	var all []*measuredTracker
	add := func(t Tracker) {
		if m, is := t.(*measuredTracker); is {
			m.told, m.stale = true, true
			all = append(all, m)
		}
	}
	add(t)
	if mix, is := t.(mixTracker); is {
		for _, w := range mix {
			add(w.Tracker)
		}
	}
	return func() {
		for _, m := range all {
			m.stale = true
		}
	}
}

// counted reports whether a node counts in the terms about usage.
func counted(n *cluster.Node) bool { return n.Usage != nil && n.Available() }

// used returns the measured fraction of a dimension in use, without estimates for pods that came since; 0 where
// it was not measured or the capacity is not known.
func used(n *cluster.Node, d cluster.Dimension) float64 {
	if c := n.Capacity(d); c > 0 && n.Usage.Known[d] {
		return n.Usage.Measured[d].Mean / c
	}
	return 0
}

// usageBalance measures how unevenly nodes are used. It is the mean, over the dimensions that any node uses,
// of the population standard deviation of the nodes' fractions in use.
type usageBalance struct{}

// Name implements Term.
func (usageBalance) Name() string { return "usage-balance" }

// About implements Described.
func (usageBalance) About() string {
	return "mean over the dimensions in use of the standard deviation of the nodes' measured fractions"
}

// Track implements Trackable.
func (t usageBalance) Track(nodes []*cluster.Node) Tracker { return trackMeasured(t, nodes) }

// Cost implements Term.
func (usageBalance) Cost(nodes []*cluster.Node) float64 {
	var n, sum, dimensions float64
	var m [cluster.Dimensions]cluster.Sums
	for _, v := range nodes {
		if !counted(v) {
			continue
		}
		n++
		for d := range m {
			if v.Usage.Measured[d].Mean != 0 { // most nodes do not use every dimension
				m[d].Replace(0, used(v, cluster.Dimension(d)))
			}
		}
	}
	for d := range m {
		if m[d].N = n; m[d].Sum > 0 {
			sum += m[d].Std()
			dimensions++
		}
	}
	return sum / max(dimensions, 1)
}

// hotFraction is the fraction in use over which a node is hot.
const hotFraction = 0.8

// hotNodes measures the fraction of the nodes that are hot: that use over 80 % of their CPU, network or disk.
type hotNodes struct{}

// Name implements Term.
func (hotNodes) Name() string { return "hot" }

// About implements Described.
func (hotNodes) About() string {
	return "share of the nodes with over 80 % of CPU, network or disk in use"
}

// Track implements Trackable.
func (t hotNodes) Track(nodes []*cluster.Node) Tracker { return trackMeasured(t, nodes) }

// Cost implements Term.
func (hotNodes) Cost(nodes []*cluster.Node) float64 {
	var n, hot float64
	for _, v := range nodes {
		if !counted(v) {
			continue
		}
		n++
		for d := range cluster.Dimension(cluster.Dimensions) {
			if d != cluster.UsedMemory && used(v, d) > hotFraction {
				hot++
				break
			}
		}
	}
	return hot / max(n, 1)
}

// Throttled measures the services' loss to their neighbours: the CPU that they wanted and did not get, as a fraction of the wanted CPU. On
// a cluster it covers all pods, by the counters of cgroups; it is 0 where it is not measured.
type Throttled struct{}

// Name implements Term.
func (Throttled) Name() string { return "throttled" }

// About implements Described.
func (Throttled) About() string {
	return "CPU that services wanted and did not get, as a share of what they wanted"
}

// Track implements Trackable.
func (t Throttled) Track(nodes []*cluster.Node) Tracker { return trackMeasured(t, nodes) }

// Cost implements Term.
func (Throttled) Cost(nodes []*cluster.Node) float64 {
	var wanted, lost float64
	for _, v := range nodes {
		if counted(v) {
			wanted, lost = wanted+v.Usage.Wanted, lost+v.Usage.Throttled
		}
	}
	if wanted == 0 {
		return 0
	}
	return lost / wanted
}

// unusedCPU measures the unused fraction of the nodes' CPU: 1 minus the mean utilisation.
type unusedCPU struct{}

// Name implements Term.
func (unusedCPU) Name() string { return "unused" }

// About implements Described.
func (unusedCPU) About() string {
	return "share of the CPU that nobody uses"
}

// Track implements Trackable.
func (t unusedCPU) Track(nodes []*cluster.Node) Tracker { return trackMeasured(t, nodes) }

// Cost implements Term.
func (unusedCPU) Cost(nodes []*cluster.Node) float64 {
	var offered, inUse float64
	for _, v := range nodes {
		if counted(v) {
			offered += v.Capacity(cluster.UsedCPU)
			inUse += used(v, cluster.UsedCPU) * v.Capacity(cluster.UsedCPU)
		}
	}
	if offered == 0 {
		return 0
	}
	return math.Max(1-inUse/offered, 0)
}

// energy measures the nodes' present power as a fraction of their power at full load. A node's CPU in use is the measured CPU plus the
// expected use of pods bound since, or its pods' requests if nothing was measured.
type energy struct{}

// Name implements Term.
func (energy) Name() string { return "energy" }

// About implements Described.
func (energy) About() string {
	return "what the nodes draw as a share of what they draw at full load, by measured CPU or else by requests"
}

// Cost implements Term.
func (energy) Cost(nodes []*cluster.Node) float64 {
	var watts, full float64
	for _, n := range nodes {
		if n.Available() {
			watts += Watts(n)
			full += cluster.FullPower(n)
		}
	}
	if full == 0 {
		return 0
	}
	return watts / full
}

// Watts returns a node's power.
func Watts(n *cluster.Node) float64 {
	capacity := n.Capacity(cluster.UsedCPU)
	if capacity <= 0 {
		return cluster.CPUDraw(n, 0)
	}
	return cluster.CPUDraw(n, n.Used(cluster.UsedCPU).Mean/capacity)
}
