package dqn

import (
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

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
	nodes := 0
	for _, p := range f.pages {
		nodes += len(p.nodes)
	}
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
