package dqn

import (
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/sim"
)

// visited calls f with the states of n decisions on a cluster on which pods come and go.
func visited(t testing.TB, nodes, n int, f func(*graph.Graph)) {
	t.Helper()
	c := learntest.Env()
	c.Nodes, c.Turnover = sim.IntRange{Min: nodes, Max: nodes}, 1000
	env, encoder := learntest.Started(t, c, 1), encode.New(feature.Default())
	for !env.Filled() {
		env.Step(len(env.Candidates()) / 2)
	}
	for i := range n {
		f(encoder.Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone())
		env.Step(i * 7919 % len(env.Candidates()))
	}
}

// A frame gives back its graph, and a later one does not change it.
func TestFramesKeepStates(t *testing.T) {
	var states []*graph.Graph
	var frames []*frame
	visited(t, 40, 50, func(g *graph.Graph) {
		var before *frame
		if len(frames) > 0 {
			before = frames[len(frames)-1]
		}
		states, frames = append(states, g), append(frames, pack(g, before))
	})
	for i, f := range frames {
		if d := cmp.Diff(states[i], f.graph(), cmpopts.IgnoreFields(graph.Graph{}, "Stamp"), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("state %d: %s", i, d)
		}
	}
	smaller := states[0].Clone()
	smaller.Resize(20)
	smaller.Candidates, smaller.CandidateX = smaller.Candidates[:0], nil
	if d := cmp.Diff(smaller, pack(smaller, frames[0]).graph(), cmpopts.IgnoreFields(graph.Graph{}, "Stamp"), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("after nodes were lost: %s", d)
	}
}

// Of a page, consecutive frames share all but the nodes that changed.
func TestFramesShareNodes(t *testing.T) {
	g := learntest.Graph(t)
	first := pack(g, nil)
	if again := pack(g, first); !slices.Equal(again.pages, first.pages) {
		t.Error("equal states do not share their pages")
	}
	g.NodeRow(1)[0]++
	second := pack(g, first)
	for i, n := range second.pages[0].nodes {
		if shared := n == first.pages[0].nodes[i]; shared != (i != 1) {
			t.Errorf("node %d is shared: %v", i, shared)
		}
	}
}

// The memory holds about as many bytes as it counts, never more than its limit, and forgets all of what it drops.
func TestMemoryHoldsWhatItCounts(t *testing.T) {
	const limit = 4 << 20
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	r := sized(20_000, limit, 0.6)
	before, whole, added := heap(), 0, 0
	var last *frame
	visited(t, 200, 2000, func(g *graph.Graph) {
		state := pack(g, last)
		if last != nil {
			r.add(transition{state: last, next: state, discount: 0.5})
			added++
		}
		if last = state; r.ledger.bytes > limit {
			t.Fatalf("it holds %d bytes", r.ledger.bytes)
		}
		l := newLedger()
		l.hold(pack(g, nil))
		whole = l.bytes
	})
	held := heap() - before
	t.Logf("%d of %d transitions in %d bytes, %d on the heap; a whole state takes %d", r.size, added, r.ledger.bytes, held, whole)
	if held < limit*7/10 || held > limit*13/10 {
		t.Errorf("%d bytes on the heap, %d counted", held, r.ledger.bytes)
	}
	if r.size == added || r.size*whole < 2*limit {
		t.Errorf("%d of %d transitions are left, whole states of %d bytes", r.size, added, whole)
	}
	for r.size > 0 {
		r.drop()
	}
	if l := r.ledger; l.bytes != 0 || len(l.frames)+len(l.pages)+len(l.nodes) > 0 {
		t.Errorf("an empty memory counts %d bytes", l.bytes)
	}
	runtime.KeepAlive(r)
}
