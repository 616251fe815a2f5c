package dqn

import (
	"fmt"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
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
	e.out.Waiting = append(e.out.Waiting, each.Map(q.waiting, e.transition)...)
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
	s.Pages = append(s.Pages, each.Map(f.pages, e.page)...)
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
	nodes := each.Map(s.Nodes, func(n storedNode) *node { return &node{n.X, n.Zone} })
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

// frame is a state in the replay memory. Its nodes lie on pages, and consecutive frames share the pages on which
// nothing changed, and on the others the nodes that did not change. Frames, pages and nodes never change.
type frame struct {
	widths feature.Widths
	zones  int
	pages  []*page

	pod, cluster, candidateX []float32
	candidates               []int32
}

// pageNodes is the number of nodes on every page but the last.
const pageNodes = 16

type page struct{ nodes []*node }

// node is a node of a state: its features, its zone, and the groups of pods on it.
type node struct {
	x    []float32 // features, then those of each group, then the weights of the groups
	zone int32
}

// pack returns a graph as a frame. It shares what it can with the frame of the state before; nil for none.
func pack(g *graph.Graph, before *frame) *frame {
	f := &frame{
		widths: g.Widths, zones: g.Zones, pages: make([]*page, 0, (g.Nodes()+pageNodes-1)/pageNodes),
		pod: slices.Clone(g.PodX), cluster: slices.Clone(g.ClusterX), candidates: slices.Clone(g.Candidates),
		candidateX: slices.Clone(g.CandidateX),
	}
	if before != nil && before.widths != g.Widths {
		before = nil
	}
	for from := 0; from < g.Nodes(); from += pageNodes {
		var old *page
		if at := from / pageNodes; before != nil && at < len(before.pages) {
			old = before.pages[at]
		}
		f.pages = append(f.pages, packPage(g, from, min(from+pageNodes, g.Nodes()), old))
	}
	return f
}

// packPage returns the page of some nodes: old itself if nothing changed, else a page that shares nodes with old.
func packPage(g *graph.Graph, from, to int, old *page) *page {
	p := &page{nodes: make([]*node, to-from)}
	same := old != nil && len(old.nodes) == to-from
	for i := range p.nodes {
		if old != nil && i < len(old.nodes) && old.nodes[i].is(g, from+i) {
			p.nodes[i] = old.nodes[i]
			continue
		}
		same = false
		groups := g.Groups[from+i]
		x := make([]float32, 0, g.FeatureWidths().Node+len(groups.X)+len(groups.Weight))
		x = append(append(append(x, g.NodeRow(from+i)...), groups.X...), groups.Weight...)
		p.nodes[i] = &node{x, g.Zone[from+i]}
	}
	if same {
		return old
	}
	return p
}

// is reports whether the node is that of a row of a graph.
func (n *node) is(g *graph.Graph, row int) bool {
	x, groups := g.NodeRow(row), g.Groups[row]
	a, b := len(x), len(x)+len(groups.X)
	return n.zone == g.Zone[row] && len(n.x) == b+len(groups.Weight) &&
		slices.Equal(n.x[:a], x) && slices.Equal(n.x[a:b], groups.X) && slices.Equal(n.x[b:], groups.Weight)
}

// graph returns the state. Nobody may change it: it shares the groups with the frame.
func (f *frame) graph() *graph.Graph {
	g := &graph.Graph{Widths: f.widths, Zones: f.zones, PodX: f.pod, ClusterX: f.cluster, Candidates: f.candidates, CandidateX: f.candidateX}
	w := g.FeatureWidths()
	nodes := each.Sum(f.pages, func(p *page) int { return len(p.nodes) })
	g.Resize(nodes)
	i := 0
	for _, p := range f.pages {
		for _, n := range p.nodes {
			k := (len(n.x) - w.Node) / (w.Group + 1)
			end := w.Node + k*w.Group
			copy(g.NodeRow(i), n.x[:w.Node])
			g.Zone[i], g.Stamp[i] = n.zone, graph.NextStamp()
			g.Groups[i] = graph.Groups{X: n.x[w.Node:end], Weight: n.x[end:]}
			i++
		}
	}
	return g
}

// ledger counts the bytes of frames that share pages and nodes.
type ledger struct {
	frames map[*frame]int // how often each is held
	pages  map[*page]int  // how many frames have it
	nodes  map[*node]int  // how many pages have it
	bytes  int
}

func newLedger() ledger {
	return ledger{map[*frame]int{}, map[*page]int{}, map[*node]int{}, 0}
}

// The bytes of a frame, a page and a node without the elements of their slices: the struct, its entry in the
// ledger, and what the allocator rounds up. TestMemoryHoldsWhatItCounts compares with the heap.
const (
	frameBytes = 256
	pageBytes  = 96
	nodeBytes  = 112
)

// hold counts a frame once more; nil is no frame.
func (l *ledger) hold(f *frame) { l.count(f, 1) }

// release undoes hold.
func (l *ledger) release(f *frame) { l.count(f, -1) }

func (l *ledger) count(f *frame, by int) {
	if f == nil || !turns(l.frames, f, by) {
		return
	}
	l.bytes += by * (frameBytes + 8*len(f.pages) + 4*(len(f.pod)+len(f.cluster)+len(f.candidates)+len(f.candidateX)))
	for _, p := range f.pages {
		if !turns(l.pages, p, by) {
			continue
		}
		l.bytes += by * (pageBytes + 8*len(p.nodes))
		for _, n := range p.nodes {
			if turns(l.nodes, n, by) {
				l.bytes += by * (nodeBytes + 4*len(n.x))
			}
		}
	}
}

// turns adds by, 1 or -1, to a count and reports whether that begins or ends it.
func turns[K comparable](counts map[K]int, of K, by int) bool {
	n := counts[of] + by
	if n == 0 {
		delete(counts, of)
		return true
	}
	counts[of] = n
	return n == 1 && by == 1
}
