package dqn

import (
	"fmt"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// memoryState is the part of a state file that holds a memory and the transitions that wait for
// their rewards. Frames, pages and nodes are in it once each, even if several share them, and refer to one another
// by index. The field names are the file's.
type memoryState struct {
	Nodes       []storedNode
	Pages       [][]int // nodes
	Frames      []storedFrame
	Transitions []storedTransition // the oldest first
	Waiting     []storedTransition
	Rewards     []float64
	Next        int       // slot after the newest transition's
	Leaves      []float64 // priorities of the transitions
	Top         float64
	Full        bool
}

// storedNode is a node of a frame.
type storedNode struct {
	X    []float32
	Zone int32
}

// storedFrame is a frame with the indices of its pages.
type storedFrame struct {
	Widths                   feature.Widths
	Zones                    int
	Pages                    []int
	Pod, Cluster, CandidateX []float32
	Candidates               []int32
}

// storedTransition is a transition with its frames' indices; -1 for none.
type storedTransition struct {
	State, Next      int
	Action, Teacher  int
	Return, Discount float64
}

// exporter numbers what it puts into a state.
type exporter struct {
	out    memoryState
	frames map[*frame]int
	pages  map[*page]int
	nodes  map[*node]int
}

// exportMemory returns what restore needs.
func exportMemory(r *memory, q nStep) memoryState {
	e := exporter{memoryState{Next: r.next, Top: r.top, Rewards: q.rewards, Full: r.full}, map[*frame]int{nil: -1}, map[*page]int{},
		map[*node]int{}}
	for i := range r.size {
		slot := r.slot(i)
		e.out.Transitions = append(e.out.Transitions, e.transition(r.transitions[slot]))
		e.out.Leaves = append(e.out.Leaves, r.tree[len(r.tree)/2+slot])
	}
	for _, t := range q.waiting {
		e.out.Waiting = append(e.out.Waiting, e.transition(t))
	}
	return e.out
}

func (e *exporter) transition(t transition) storedTransition {
	return storedTransition{e.frame(t.state), e.frame(t.next), t.action, t.teacher, t.ret, t.discount}
}

func (e *exporter) frame(f *frame) int {
	if n, ok := e.frames[f]; ok {
		return n
	}
	s := storedFrame{Widths: f.widths, Zones: f.zones, Pod: f.pod, Cluster: f.cluster, CandidateX: f.candidateX, Candidates: f.candidates}
	for _, p := range f.pages {
		s.Pages = append(s.Pages, e.page(p))
	}
	e.frames[f] = len(e.out.Frames)
	e.out.Frames = append(e.out.Frames, s)
	return e.frames[f]
}

func (e *exporter) page(p *page) int {
	if n, ok := e.pages[p]; ok {
		return n
	}
	var nodes []int
	for _, n := range p.nodes {
		at, ok := e.nodes[n]
		if !ok {
			at = len(e.out.Nodes)
			e.nodes[n] = at
			e.out.Nodes = append(e.out.Nodes, storedNode{n.x, n.zone})
		}
		nodes = append(nodes, at)
	}
	e.pages[p] = len(e.out.Pages)
	e.out.Pages = append(e.out.Pages, nodes)
	return e.pages[p]
}

// restore fills an empty memory and queue.
func (s memoryState) restore(r *memory, q *nStep) error {
	n := len(s.Transitions)
	if n > len(r.transitions) || len(s.Leaves) != n || s.Next < 0 || s.Next >= len(r.transitions) {
		return fmt.Errorf("the state holds %d transitions with %d priorities up to slot %d, the memory has %d", n, len(s.Leaves), s.Next,
			len(r.transitions))
	}
	frames, err := s.frames()
	if err != nil {
		return err
	}
	kept, err := load(s.Transitions, frames)
	if err != nil {
		return err
	}
	if q.waiting, err = load(s.Waiting, frames); err != nil {
		return err
	}
	q.rewards = s.Rewards
	r.next = (s.Next - n + len(r.transitions)) % len(r.transitions)
	for i, t := range kept {
		slot := r.next
		r.add(t)
		r.set(slot, s.Leaves[i])
	}
	r.top, r.full = s.Top, s.Full || r.full
	return nil
}

// frames returns the frames of a state, which are valid graphs.
func (s memoryState) frames() ([]*frame, error) {
	nodes := make([]*node, len(s.Nodes))
	for i, n := range s.Nodes {
		nodes[i] = &node{n.X, n.Zone}
	}
	pages := make([]*page, len(s.Pages))
	for i, of := range s.Pages {
		p := &page{}
		for _, at := range of {
			if at < 0 || at >= len(nodes) {
				return nil, fmt.Errorf("a page refers to node %d of %d", at, len(nodes))
			}
			p.nodes = append(p.nodes, nodes[at])
		}
		pages[i] = p
	}
	frames := make([]*frame, len(s.Frames))
	for i, f := range s.Frames {
		out := &frame{widths: f.Widths, zones: f.Zones, pod: f.Pod, cluster: f.Cluster, candidateX: f.CandidateX, candidates: f.Candidates}
		for _, at := range f.Pages {
			if at < 0 || at >= len(pages) {
				return nil, fmt.Errorf("a frame refers to page %d of %d", at, len(pages))
			}
			out.pages = append(out.pages, pages[at])
		}
		if err := out.validate(); err != nil {
			return nil, err
		}
		frames[i] = out
	}
	return frames, nil
}

// validate checks that the frame is a valid graph.
func (f *frame) validate() error {
	w := (&graph.Graph{Widths: f.widths}).FeatureWidths()
	for _, p := range f.pages {
		for _, n := range p.nodes {
			if rest := len(n.x) - w.Node; rest < 0 || rest%(w.Group+1) != 0 {
				return fmt.Errorf("a node has %d values", len(n.x))
			}
		}
	}
	return f.graph().Validate()
}

func load(stored []storedTransition, frames []*frame) (out []transition, err error) {
	for _, t := range stored {
		if t.State < 0 || t.State >= len(frames) || t.Next >= len(frames) {
			return nil, fmt.Errorf("a transition refers to the frames %d and %d of %d", t.State, t.Next, len(frames))
		}
		if c := len(frames[t.State].candidates); t.Action < 0 || t.Action >= c || t.Teacher >= c {
			return nil, fmt.Errorf("a transition chooses %d, its teacher %d, of %d candidates", t.Action, t.Teacher, c)
		}
		tr := transition{state: frames[t.State], action: t.Action, teacher: t.Teacher, ret: t.Return, discount: t.Discount}
		if t.Next >= 0 {
			tr.next = frames[t.Next]
		}
		out = append(out, tr)
	}
	return out, nil
}
