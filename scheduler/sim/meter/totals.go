package meter

import (
	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// hot is the fraction of a node's CPU, network or disk over which the node is hot.
const hot = 0.8

// Totals sums up what the available nodes used over time.
type Totals struct {
	Wanted    float64 // core-seconds that services wanted, within their limits
	Throttled float64 // core-seconds of them that services did not get
	CPU       float64 // core-seconds used
	Capacity  float64 // core-seconds that the nodes had
	Joules    float64 // that the nodes drew, see package power

	Seconds   float64 // time metered
	NodeTime  float64 // seconds times nodes
	HotTime   float64 // seconds times nodes that use over 80 % of their CPU, network or disk
	Imbalance float64 // seconds times the mean of the dimensions' standard deviations over the nodes
	Used      float64 // seconds times the mean of the dimensions' means over the nodes

	Finished    int     // batch jobs that have done their work
	BatchGot    float64 // core-seconds of work that batch jobs did
	BatchWanted float64 // core-seconds that they would have done in that time with all the CPU they wanted
}

// Spread sums up the fractions of nodes in use, in one tick.
type Spread struct {
	nodes float64
	of    [usage.Dimensions]cluster.Sums // of the nodes that use a dimension
}

// Node adds what a node used of its capacity in one tick.
func (t *Totals) Node(s *Spread, used, capacity *usage.Amounts, tick float64) {
	s.nodes++
	hottest := 0.0
	for d, x := range used {
		if x == 0 || capacity[d] == 0 {
			continue
		}
		x /= capacity[d]
		s.of[d].Add(x)
		if usage.Dimension(d) != usage.Memory {
			hottest = max(hottest, x)
		}
	}
	if hottest > hot {
		t.HotTime += tick
	}
}

// add adds one tick of a node.
func (t *Totals) add(r *row, tick float64, s *Spread) {
	if !r.node.Available() {
		return
	}
	t.Node(s, &r.used, &r.capacity, tick)
	t.Wanted += r.node.Usage.Wanted / 1000 * tick
	t.Throttled += r.node.Usage.Throttled / 1000 * tick
	t.CPU += r.used[usage.CPU] * tick
	t.Capacity += r.capacity[usage.CPU] * tick
	t.Joules += cluster.CPUDraw(r.node, r.used[usage.CPU]/r.capacity[usage.CPU]) * tick
}

// End adds one tick of all nodes.
func (t *Totals) End(s *Spread, tick float64) {
	t.Seconds += tick
	t.NodeTime += s.nodes * tick
	used, imbalance, dimensions := 0.0, 0.0, 0.0
	for _, m := range s.of {
		if m.Sum > 0 {
			m.N = s.nodes
			used, imbalance, dimensions = used+m.Mean(), imbalance+m.Std(), dimensions+1
		}
	}
	t.Imbalance += imbalance / max(dimensions, 1) * tick
	t.Used += used / max(dimensions, 1) * tick
}
