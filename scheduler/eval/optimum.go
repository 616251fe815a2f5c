package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/sim"
)

// Limits of a search. They keep it to seconds and to little memory.
const (
	maxNodes  = 8
	maxPods   = 24
	maxStates = 300_000 // held at the same time
)

// errTooLarge means that an episode has too many states for an exhaustive search.
var errTooLarge = errors.New("too many placements to try; the optimum needs a scenario of a few nodes and a dozen pods")

// bestOutcome finds the best placement of the episode of a seed by exhaustive search: the fewest unscheduled pods, and among these
// placements the lowest cost. The search knows all arrivals in advance and may leave out a pod that would fit, so no policy can do
// better. It returns an error for episodes in which nodes are lost, pods leave or pods share GPUs, and for episodes that are too large.
func bestOutcome(env *sim.Env, seed uint64) (sim.Outcome, error) {
	if env.Config().Lose > 0 {
		return sim.Outcome{}, errors.New("the optimum cannot be computed for a scenario that loses nodes")
	}
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	plan := env.Plan()
	for _, a := range plan {
		if !math.IsInf(a.Lifetime, 1) {
			return sim.Outcome{}, errors.New("the optimum cannot be computed for a scenario in which pods leave")
		}
		if a.Pod.Requests.GPUMilli > 0 { // a state does not say on which devices shares are
			return sim.Outcome{}, errors.New("the optimum cannot be computed for a scenario in which pods share GPUs")
		}
	}
	s := newSearch(env.Snapshot().Nodes, plan)
	tooLarge := fmt.Errorf("seed %d, %d pods and %d nodes: %w", seed, len(plan), len(s.nodes), errTooLarge)
	if len(plan) > maxPods || len(s.nodes) > maxNodes {
		return sim.Outcome{}, tooLarge
	}
	// Leave out as few pods as possible: first none, then one, and so on.
	for out := range len(plan) + 1 {
		ends, ok := s.ends(out)
		if !ok {
			return sim.Outcome{}, tooLarge
		}
		if len(ends) > 0 {
			return s.best(ends, env.Config(), len(plan), out), nil
		}
	}
	panic("optimum: a placement without pods is always possible")
}

// search enumerates the placements breadth-first, class after class. A state is a matrix of bytes:
// row by row the number of pods of each class on each node, and in a last row the pods left out.
// Identical nodes are interchangeable, so their rows are sorted and equivalent states become equal.
type search struct {
	nodes   []*cluster.Node // before the first arrival; never changed
	alike   [][]int         // groups of identical nodes, by index
	classes []podClass
}

// podClass is a group of identical pods.
type podClass struct {
	pod   *cluster.Pod
	count int
}

func newSearch(nodes []*cluster.Node, plan []sim.Arrival) *search {
	s := &search{nodes: clone(nodes)}
	for i, n := range nodes {
		at := slices.IndexFunc(s.alike, func(rows []int) bool { return sameNode(nodes[rows[0]], n) })
		if at < 0 {
			at = len(s.alike)
			s.alike = append(s.alike, nil)
		}
		s.alike[at] = append(s.alike[at], i)
	}
	for _, a := range plan {
		at := slices.IndexFunc(s.classes, func(c podClass) bool { return cluster.KindKey(c.pod) == cluster.KindKey(a.Pod) })
		if at < 0 {
			at = len(s.classes)
			s.classes = append(s.classes, podClass{pod: a.Pod})
		}
		s.classes[at].count++
	}
	return s
}

// ends returns the states in which every pod is placed, except at most out pods. It is not ok if
// the search meets too many states.
func (s *search) ends(out int) (states []string, ok bool) {
	width := len(s.classes)
	layer := []string{string(make([]byte, (len(s.nodes)+1)*width))}
	left := width * len(s.nodes) // start of the row of the pods left out
	for k, c := range s.classes {
		for range c.count {
			next := map[string]struct{}{}
			for _, state := range layer {
				for i := range s.nodes {
					if s.fits(state, i, c.pod) {
						next[s.canonical(state, i*width+k)] = struct{}{}
					}
				}
				if each.Sum([]byte(state[left:]), func(pods byte) int { return int(pods) }) < out {
					next[s.canonical(state, left+k)] = struct{}{}
				}
				if len(next) > maxStates {
					return nil, false
				}
			}
			layer = slices.AppendSeq(layer[:0], maps.Keys(next))
		}
	}
	slices.Sort(layer) // so that the first of equally good states is always the same
	return layer, true
}

// fits tells whether one more pod fits on a node in a state.
func (s *search) fits(state string, node int, pod *cluster.Pod) bool {
	n := *s.nodes[node]
	for k, c := range s.classes {
		n.Requested = n.Requested.Plus(c.pod.Requests.Times(int64(state[node*len(s.classes)+k])))
	}
	return n.Fit(pod) == cluster.Fits
}

// canonical returns the state with one more pod at a byte and the rows of identical nodes sorted.
func (s *search) canonical(state string, at int) string {
	b, width := []byte(state), len(s.classes)
	b[at]++
	for _, rows := range s.alike {
		sorted := each.Map(rows, func(r int) string { return string(b[r*width : (r+1)*width]) })
		slices.Sort(sorted)
		for i, r := range rows {
			copy(b[r*width:], sorted[i])
		}
	}
	return string(b)
}

// apply returns the nodes with the pods of a state.
func (s *search) apply(state string) []*cluster.Node {
	nodes, width := clone(s.nodes), len(s.classes)
	for i, n := range nodes {
		for k, c := range s.classes {
			for range state[i*width+k] {
				n.Add(c.pod.Requests)
			}
		}
	}
	return nodes
}

// best returns the outcome of the state with the lowest cost.
func (s *search) best(ends []string, c sim.Config, arrived, out int) sim.Outcome {
	var nodes []*cluster.Node
	least := math.Inf(1)
	for _, e := range ends {
		at := s.apply(e)
		if cost := c.Objective.Cost(at); cost < least {
			least, nodes = cost, at
		}
	}
	o := sim.Measure(nodes)
	o.Cost, o.MeanCost = least, least // no pod leaves, so the time after the fill has no length
	o.Arrived = arrived
	o.Placed = arrived - out
	o.Unscheduled, o.Waited = out, out
	return o
}

// clone returns copies of nodes to which pods can be added.
func clone(nodes []*cluster.Node) []*cluster.Node {
	out := make([]*cluster.Node, len(nodes))
	for i, n := range nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		out[i] = &c
	}
	return out
}

// sameNode tells whether two nodes differ in nothing but their names.
func sameNode(a, b *cluster.Node) bool {
	return a.Zone == b.Zone && a.Unschedulable == b.Unschedulable && a.Allocatable == b.Allocatable && a.Requested == b.Requested &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints) && slices.Equal(a.Groups, b.Groups) &&
		a.GPUModel == b.GPUModel && slices.Equal(a.GPUs, b.GPUs)
}
