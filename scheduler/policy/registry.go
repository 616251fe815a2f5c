package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/internal/fragmentation"
)

// Heuristic is a policy that needs no checkpoint, as evaluation, the plugin and the flags
// offer it.
type Heuristic struct {
	Name  string               // in flags, configuration files and tables; its Policy's Name
	About string               // in a few words
	New   func(Setting) Policy // makes one of its own for an episode or a scheduler profile
	// RandomTies tells that equals are to be drawn among, as kube-scheduler does; otherwise
	// the first of them is taken.
	RandomTies bool
}

// Setting is what a policy is made for.
type Setting struct {
	Seed    uint64                 // a policy that draws at random draws from it
	Typical *fragmentation.Typical // what the workload's pods ask for; nil where nobody knows
}

// randomStream keeps what the random policy draws from a seed apart from all else that is
// drawn from the same one.
const randomStream = 0x72616e64

// Heuristics are those for every cluster, the one that the others are compared with first.
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
		{Name: "round-robin", About: "the nodes in turn", New: func(Setting) Policy { return NewRoundRobin() }},
		{Name: "random", About: "any node, each as likely", New: func(s Setting) Policy {
			return NewRandom(rand.New(rand.NewPCG(s.Seed, randomStream)))
		}},
	}
}

// GPUHeuristics are those for clusters with GPUs, the one to beat first. Their scores are
// integers, of which many are equal. As published the first of equals is taken; drawing among
// them costs some of them five points of GPU allocation.
func GPUHeuristics() []Heuristic {
	return []Heuristic{
		{Name: "fgd", About: "fragmentation gradient descent: what fragments the GPUs least for the workload's typical pods", New: func(s Setting) Policy { return NewFGD(s.Typical) }},
		{Name: "gpu-best-fit", About: "the node with the least CPU and GPU left", New: func(Setting) Policy { return NewGPUBestFit() }},
		{Name: "gpu-packing", About: "devices in use before idle ones, and these before idle nodes", New: func(Setting) Policy { return NewGPUPacking() }},
		{Name: "gpu-clustering", About: "pods that ask for as many GPUs together", New: func(Setting) Policy { return NewGPUClustering() }},
		{Name: "gpu-dot-product", About: "the node whose free CPU and GPU lie least along the pod's", New: func(Setting) Policy { return NewGPUDotProduct() }},
	}
}

// FindHeuristic returns the heuristic of a name, or for "greedy:OBJECTIVE" the one that is
// greedy for an objective and for "linear:FILE" the one with the weights of a file. The error
// lists those that there are.
func FindHeuristic(name string) (Heuristic, error) {
	switch {
	case strings.HasPrefix(name, greedyPrefix):
		return greedyFor(name)
	case strings.HasPrefix(name, linearPrefix):
		return linearFrom(name)
	}
	known := slices.Concat(Heuristics(), GPUHeuristics())
	for _, h := range known {
		if h.Name == name {
			return h, nil
		}
	}
	return Heuristic{}, fmt.Errorf("no heuristic is called %q; there are %s, and greedy:OBJECTIVE and linear:FILE", name, strings.Join(namesOf(known), ", "))
}

// HeuristicNames are the names of Heuristics, in order.
func HeuristicNames() []string { return namesOf(Heuristics()) }

// GPUHeuristicNames are the names of GPUHeuristics, in order.
func GPUHeuristicNames() []string { return namesOf(GPUHeuristics()) }

func namesOf(list []Heuristic) (names []string) {
	for _, h := range list {
		names = append(names, h.Name)
	}
	return names
}

// weighted is a tuned linear policy.
func weighted(name, purpose string) Heuristic {
	return Heuristic{
		Name: name, About: "a weighted sum of ten hand-made features, tuned by the cross-entropy method for " + purpose,
		New: func(Setting) Policy { return Tuned(name) },
	}
}

// always is a policy without state, which one and all may share.
func always(p Policy, about string) Heuristic {
	return Heuristic{Name: p.Name(), About: about, New: func(Setting) Policy { return p }, RandomTies: true}
}

// binPacking is RequestedToCapacityRatio with the documentation's shape.
func binPacking() Policy {
	p, err := NewRequestedToCapacityRatio(BinPacking())
	if err != nil {
		panic(err) // the shape is a constant
	}
	return p
}
