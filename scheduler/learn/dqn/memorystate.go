package dqn

import (
	"fmt"

	"gnnsched/gnn/graph"
)

// memoryState is the part of a state file that holds a memory and the transitions that wait for
// their rewards. Each graph is in it once, even if several transitions share it. The field names
// are the file's.
type memoryState struct {
	Graphs      []graph.Graph
	Transitions []storedTransition // in the order of the slots
	Waiting     []storedTransition
	Rewards     []float64
	Next        int
	Leaves      []float64 // priorities, by slot
	Top         float64
}

// storedTransition is a transition with its graphs' indices in memoryState.Graphs; -1 for none.
type storedTransition struct {
	State, Next      int
	Action, Teacher  int
	Return, Discount float64
}

// newest returns a memory with the latest transitions whose graphs take no more than a number of
// bytes together. A graph that several transitions share counts once.
func (r *memory) newest(bytes int) *memory {
	out := &memory{exponent: r.exponent, transitions: make([]transition, len(r.transitions)), tree: make([]float64, len(r.tree)), top: r.top}
	counted := map[*graph.Graph]bool{nil: true}
	first := r.size
	for i := 1; i <= r.size; i++ {
		t := r.transitions[(r.next-i+len(r.transitions))%len(r.transitions)]
		for _, g := range []*graph.Graph{t.state, t.next} {
			if !counted[g] {
				counted[g] = true
				bytes -= size(g)
			}
		}
		if bytes < 0 {
			first = i - 1
			break
		}
	}
	for i := first; i > 0; i-- {
		slot := (r.next - i + len(r.transitions)) % len(r.transitions)
		at := out.next
		out.add(r.transitions[slot])
		out.set(at, r.tree[len(r.tree)/2+slot])
	}
	return out
}

// size returns the approximate number of bytes of a graph.
func size(g *graph.Graph) int {
	n := len(g.NodeX) + len(g.Zone) + 2*len(g.Stamp) + len(g.PodX) + len(g.ClusterX) + len(g.Candidates) + len(g.CandidateX)
	for _, of := range g.Groups {
		n += len(of.X) + len(of.Weight)
	}
	return 4 * n
}

// exportMemory returns what restore needs.
func exportMemory(r *memory, q nStep) memoryState {
	s := memoryState{Next: r.next, Top: r.top, Rewards: q.rewards, Leaves: r.tree[len(r.tree)/2:][:r.size]}
	numbers := map[*graph.Graph]int{nil: -1}
	number := func(g *graph.Graph) int {
		n, ok := numbers[g]
		if !ok {
			n = len(s.Graphs)
			numbers[g] = n
			s.Graphs = append(s.Graphs, *g)
		}
		return n
	}
	store := func(ts []transition) (out []storedTransition) {
		for _, t := range ts {
			out = append(out, storedTransition{number(t.state), number(t.next), t.action, t.teacher, t.ret, t.discount})
		}
		return out
	}
	s.Transitions, s.Waiting = store(r.transitions[:r.size]), store(q.waiting)
	return s
}

// restore fills an empty memory and queue.
func (s memoryState) restore(r *memory, q *nStep) error {
	if len(s.Transitions) > len(r.transitions) || len(s.Leaves) != len(s.Transitions) || s.Next < 0 || s.Next > len(r.transitions) {
		return fmt.Errorf("the state holds %d transitions with %d priorities, the memory %d", len(s.Transitions), len(s.Leaves), len(r.transitions))
	}
	graphs := make([]*graph.Graph, len(s.Graphs))
	for i := range s.Graphs {
		if err := s.Graphs[i].Validate(); err != nil {
			return err
		}
		graphs[i] = &s.Graphs[i]
	}
	load := func(stored []storedTransition) (out []transition, err error) {
		for _, t := range stored {
			if t.State < 0 || t.State >= len(graphs) || t.Next >= len(graphs) {
				return nil, fmt.Errorf("a transition refers to the graphs %d and %d of %d", t.State, t.Next, len(graphs))
			}
			if c := len(graphs[t.State].Candidates); t.Action < 0 || t.Action >= c || t.Teacher >= c {
				return nil, fmt.Errorf("a transition chooses %d, its teacher %d, of %d candidates", t.Action, t.Teacher, c)
			}
			tr := transition{state: graphs[t.State], action: t.Action, teacher: t.Teacher, ret: t.Return, discount: t.Discount}
			if t.Next >= 0 {
				tr.next = graphs[t.Next]
			}
			out = append(out, tr)
		}
		return out, nil
	}
	kept, err := load(s.Transitions)
	if err != nil {
		return err
	}
	if q.waiting, err = load(s.Waiting); err != nil {
		return err
	}
	q.rewards = s.Rewards
	r.size = copy(r.transitions, kept)
	r.next, r.top = s.Next, s.Top
	for i, p := range s.Leaves {
		r.set(i, p)
	}
	return nil
}
