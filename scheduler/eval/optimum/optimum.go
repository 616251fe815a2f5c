package optimum

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/sim"
)

// What a search may be about, so that it takes seconds and not the memory of the machine.
const (
	maxNodes  = 8
	maxPods   = 24
	maxStates = 300_000 // looked at together
)

// ErrTooLarge says that an episode has too many states to go through all of them.
var ErrTooLarge = errors.New("too many placements to go through; the optimum is for a few nodes and a dozen pods")

// Of returns how the episode of a seed ends at best: with the fewest pods unscheduled, and
// among these ends the one of least cost. Neither pods nor nodes must leave.
func Of(env *sim.Env, seed uint64) (sim.Outcome, error) {
	if env.Config().Lose > 0 {
		return sim.Outcome{}, errors.New("nodes are lost, and the optimum is known only where none is")
	}
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	plan := env.Plan()
	for _, a := range plan {
		if !math.IsInf(a.Lifetime, 1) {
			return sim.Outcome{}, errors.New("pods leave, and the optimum is known only where none does")
		}
		if a.Pod.Requests.GPUMilli > 0 { // a state does not say on which devices shares are
			return sim.Outcome{}, errors.New("pods share GPUs, and the optimum is known only where none does")
		}
	}
	s := newSearch(env.Snapshot().Nodes, plan)
	tooLarge := fmt.Errorf("seed %d, %d pods and %d nodes: %w", seed, len(plan), len(s.nodes), ErrTooLarge)
	if len(plan) > maxPods || len(s.nodes) > maxNodes {
		return sim.Outcome{}, tooLarge
	}
	// Leaving pods out is the last resort, so it is tried with ever more of them.
	for out := range len(plan) + 1 {
		ends, ok := s.ends(out)
		if !ok {
			return sim.Outcome{}, tooLarge
		}
		if len(ends) > 0 {
			return s.best(ends, env.Config(), len(plan), out), nil
		}
	}
	panic("optimum: leaving every pod out is an end")
}

// search goes through the ways to place pods, class after class. A state says how many pods of
// each class every node has: a byte each, node after node, and one more row for those left out.
// Alike nodes are interchangeable, so that their rows are sorted, and alike states are one.
type search struct {
	nodes   []*cluster.Node // as before the first arrival; fit and cost are asked of copies
	alike   [][]int         // rows of nodes that nothing tells apart
	classes []class
}

// class is pods that nothing tells apart.
type class struct {
	pod   *cluster.Pod
	count int
}

func newSearch(nodes []*cluster.Node, plan []sim.Arrival) *search {
	s := &search{nodes: clone(nodes)}
	for i, n := range nodes {
		at := slices.IndexFunc(s.alike, func(rows []int) bool { return same(nodes[rows[0]], n) })
		if at < 0 {
			at, s.alike = len(s.alike), append(s.alike, nil)
		}
		s.alike[at] = append(s.alike[at], i)
	}
	for _, a := range plan {
		at := slices.IndexFunc(s.classes, func(c class) bool { return c.pod == a.Pod || equal(c.pod, a.Pod) })
		if at < 0 {
			at, s.classes = len(s.classes), append(s.classes, class{pod: a.Pod})
		}
		s.classes[at].count++
	}
	return s
}

// ends returns the states in which every pod has a node but for as many as out; not ok means
// that there are too many states on the way.
func (s *search) ends(out int) (states []string, ok bool) {
	width := len(s.classes)
	layer := []string{string(make([]byte, (len(s.nodes)+1)*width))}
	left := width * len(s.nodes) // where the row of those left out begins
	for k, c := range s.classes {
		for range c.count {
			next := map[string]struct{}{}
			for _, state := range layer {
				for i := range s.nodes {
					if s.fits(state, i, c.pod) {
						next[s.canonical(state, i*width+k)] = struct{}{}
					}
				}
				if leftOut(state[left:]) < out {
					next[s.canonical(state, left+k)] = struct{}{}
				}
				if len(next) > maxStates {
					return nil, false
				}
			}
			layer = layer[:0]
			for state := range next {
				layer = append(layer, state)
			}
		}
	}
	slices.Sort(layer) // the first of equally good ends is then always the same
	return layer, true
}

// fits tells whether one more pod fits on a node as it is in the state.
func (s *search) fits(state string, node int, pod *cluster.Pod) bool {
	n := *s.nodes[node]
	for k, c := range s.classes {
		n.Requested = n.Requested.Plus(c.pod.Requests.Times(int64(state[node*len(s.classes)+k])))
	}
	return n.Fit(pod) == cluster.Fits
}

func leftOut(row string) (n int) {
	for _, b := range []byte(row) {
		n += int(b)
	}
	return n
}

// canonical is the state with one pod more at a byte, the rows of alike nodes sorted.
func (s *search) canonical(state string, at int) string {
	b, width := []byte(state), len(s.classes)
	b[at]++
	for _, rows := range s.alike {
		sorted := make([]string, len(rows))
		for i, r := range rows {
			sorted[i] = string(b[r*width : (r+1)*width])
		}
		slices.Sort(sorted)
		for i, r := range rows {
			copy(b[r*width:], sorted[i])
		}
	}
	return string(b)
}

// apply is the nodes of a state.
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

// best is the outcome of the end with the least cost.
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
	o.Cost, o.Arrived, o.Placed, o.Unscheduled, o.Waited = least, arrived, arrived-out, out, out
	return o
}
