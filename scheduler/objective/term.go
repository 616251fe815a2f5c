package objective

import "gnnsched/internal/cluster"

// Term gives the state of a cluster a cost; lower is better.
type Term interface {
	// Name is the term's name in flags, configuration files and tables.
	Name() string
	// Cost returns the cost of the state. It has no unit. 0 is the best state and 1 about the
	// worst, so that the weights of a mix are comparable.
	Cost(nodes []*cluster.Node) float64
}

// Described is a term with a short description for help texts and the reference.
type Described interface {
	Term
	About() string
}

// Tracker keeps the cost of one cluster up to date while its nodes change.
type Tracker interface {
	// Update records that the pods on node i may have changed. A node's capacity and availability must not change while the tracker is used.
	Update(i int)
	// Cost returns the term's cost of the state after all updates, up to rounding.
	Cost() float64
}

// Trackable is a term whose cost is cheaper to update than to compute from all nodes.
type Trackable interface {
	Term
	// Track returns a tracker of the given nodes. The slice must not change while the tracker is
	// used.
	Track(nodes []*cluster.Node) Tracker
}

// Track returns a tracker of t for the given nodes. If t is not Trackable, the tracker computes the cost from all nodes at every call.
func Track(t Term, nodes []*cluster.Node) Tracker {
	if own, ok := t.(Trackable); ok {
		return own.Track(nodes)
	}
	return recomputing{t, nodes}
}

// recomputing is the tracker of terms that are not Trackable.
type recomputing struct {
	term  Term
	nodes []*cluster.Node
}

func (recomputing) Update(int)      {}
func (r recomputing) Cost() float64 { return r.term.Cost(r.nodes) }
