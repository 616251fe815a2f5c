package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Heuristic is a policy that needs no checkpoint, as evaluation, the plugin and the flags
// offer it.
type Heuristic struct {
	Name  string // in flags, configuration files and tables; its Policy's Name
	About string // in a few words
	// New makes one of its own for an episode or a scheduler profile; a policy that draws at
	// random draws from seed.
	New func(seed uint64) Policy
	// RandomTies tells that equals are to be drawn among, as kube-scheduler does; otherwise
	// the first of them is taken.
	RandomTies bool
}

// randomStream keeps what the random policy draws from a seed apart from all else that is
// drawn from the same one.
const randomStream = 0x72616e64

// Heuristics are all of them, the one that the others are compared with first.
func Heuristics() []Heuristic {
	return []Heuristic{
		always(Kubernetes{}, "kube-scheduler's default: LeastAllocated and BalancedAllocation"),
		always(MostAllocated{}, "kube-scheduler's packing: the fullest node by share"),
		always(binPacking(), "kube-scheduler's shape function, from 0 at an empty node to 10 at a full one"),
		always(BestFit{}, "the node with the least left, by amount"),
		always(DotProduct{}, "Tetris: the node whose free resources lie most along the pod's"),
		always(GreedyBalance{}, "the node that leaves utilization most even after this one pod"),
		weighted("linear", "balance"),
		weighted("linear-pack", "packing"),
		weighted("linear-zones", "packing with even zones"),
		{Name: "round-robin", About: "the nodes in turn", New: func(uint64) Policy { return NewRoundRobin() }},
		{Name: "random", About: "any node, each as likely", New: func(seed uint64) Policy {
			return NewRandom(rand.New(rand.NewPCG(seed, randomStream)))
		}},
	}
}

// FindHeuristic returns the heuristic of a name, or for "greedy:OBJECTIVE" the one that is
// greedy for an objective. The error lists those that there are.
func FindHeuristic(name string) (Heuristic, error) {
	if strings.HasPrefix(name, greedyPrefix) {
		return greedyFor(name)
	}
	for _, h := range Heuristics() {
		if h.Name == name {
			return h, nil
		}
	}
	return Heuristic{}, fmt.Errorf("no heuristic is called %q; there are %s, and greedy:OBJECTIVE", name, strings.Join(HeuristicNames(), ", "))
}

// HeuristicNames are the names of Heuristics, in order.
func HeuristicNames() []string {
	var names []string
	for _, h := range Heuristics() {
		names = append(names, h.Name)
	}
	return names
}

// weighted is a tuned linear policy.
func weighted(name, purpose string) Heuristic {
	return Heuristic{
		Name: name, About: "a weighted sum of ten hand-made features, tuned by the cross-entropy method for " + purpose,
		New: func(uint64) Policy { return Tuned(name) },
	}
}

// always is a policy without state, which one and all may share.
func always(p Policy, about string) Heuristic {
	return Heuristic{Name: p.Name(), About: about, New: func(uint64) Policy { return p }, RandomTies: true}
}

// binPacking is RequestedToCapacityRatio with the documentation's shape.
func binPacking() Policy {
	p, err := NewRequestedToCapacityRatio(BinPacking())
	if err != nil {
		panic(err) // the shape is a constant
	}
	return p
}
