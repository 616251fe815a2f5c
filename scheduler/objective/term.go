package objective

import "gnnsched/internal/cluster"

// Term gives the state of a cluster a cost; lower is better.
type Term interface {
	// Name is how flags, configuration and tables call the term.
	Name() string
	// Cost is the cost of the state. It has no unit; 0 is the best that there is, and 1 is
	// about the worst, so that the weights of a mix compare.
	Cost(nodes []*cluster.Node) float64
}

// Tracker follows the cost of one cluster while its nodes change.
type Tracker interface {
	// Update takes note that node i may have changed what it runs. What it offers and
	// whether it is available stay as they were when the tracker was made.
	Update(i int)
	// Cost is the term's cost of the state as of the last updates, up to rounding.
	Cost() float64
}

// Trackable is a term that can be followed for less than evaluating it anew.
type Trackable interface {
	Term
	// Track follows the given nodes. The slice must not change while the tracker is used.
	Track(nodes []*cluster.Node) Tracker
}

// Track follows t over the given nodes: in its own way where it has one, and by evaluating
// it anew whenever the cost is asked for where not.
func Track(t Term, nodes []*cluster.Node) Tracker {
	if own, ok := t.(Trackable); ok {
		return own.Track(nodes)
	}
	return anew{t, nodes}
}

type anew struct {
	term  Term
	nodes []*cluster.Node
}

func (anew) Update(int)      {}
func (a anew) Cost() float64 { return a.term.Cost(a.nodes) }
