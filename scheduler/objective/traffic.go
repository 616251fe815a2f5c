package objective

import "gnnsched/internal/cluster"

// The terms of this file are about what pods exchange (cluster.Node.Traffic). They are 0 where that is not known.

// traffic measures the mean distance of a byte that pods send, as a fraction of the farthest distance of the network (cluster.Path).
type traffic struct{}

// Name implements Term.
func (traffic) Name() string { return "traffic" }

// About implements Described.
func (traffic) About() string {
	return "mean distance of a byte that pods exchange, as a share of the farthest"
}

// Cost implements Term.
func (traffic) Cost(nodes []*cluster.Node) float64 {
	if t := cluster.TrafficOf(nodes); t != nil {
		return t.MeanDistance()
	}
	return 0
}

// overload measures the traffic that links cannot carry: the sum over the links of the traffic over their bandwidth, as a
// share of all traffic.
type overload struct{}

// Name implements Term.
func (overload) Name() string { return "overload" }

// About implements Described.
func (overload) About() string {
	return "traffic over the bandwidth of the links, summed over the links, as a share of all traffic"
}

// Cost implements Term.
func (overload) Cost(nodes []*cluster.Node) float64 {
	if t := cluster.TrafficOf(nodes); t != nil {
		return t.ExcessShare()
	}
	return 0
}

// Talks reports whether a term is about traffic.
func Talks(t Term) bool {
	return t.Name() == traffic{}.Name() || t.Name() == overload{}.Name()
}
