package infer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// A split graph has the scores of the whole graph. What a session keeps over changes of nodes, of kept numbers and of
// candidates is to the bit what a new session computes.
func TestSplitGraph(t *testing.T) {
	for _, a := range []checkpoint.Architecture{
		{Encoder: checkpoint.GNN, Hidden: 8, Features: []string{"base", "usage"}},
		{Encoder: checkpoint.MLP, Hidden: 11, Features: []string{"usage", "base", "whole"}},
		{Encoder: checkpoint.GNN, Hidden: 16, Features: []string{"base", "usage", "traffic"}}, // has paths
	} {
		a.Head = checkpoint.DQN
		net, c := networkOf(t, a)
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			g, old := randomGraphOf(r, net.Layout().Widths, 1+r.IntN(8)), net.NewSession()
			g.Kept = make([]feature.Kept, g.Nodes())
			for i := range g.Kept {
				g.Kept[i] = randomKept(r, net)
			}
			for range 3 {
				whole := splitRandomly(r, net, g)
				out, err := old.Score(g, nil)
				fatal.If(t, err)
				sameAsReference(t, c, whole, out)
				fresh := net.NewSession()
				if _, err := fresh.Score(g, nil); err != nil {
					t.Fatal(err)
				}
				for i, v := range g.Candidates {
					from, to := int(v)*net.h, int(v+1)*net.h
					if !slices.Equal(old.keptParts[from:to], fresh.keptParts[from:to]) {
						t.Fatalf("what is kept of node %d is %v, computed anew %v", v, old.keptParts[from:to], fresh.keptParts[from:to])
					}
					if got := old.candidateRow(g, i); !slices.Equal(got, whole.CandidateRow(i)) {
						t.Fatalf("the features of candidate %d are read as %v, want %v", i, got, whole.CandidateRow(i))
					}
				}
				if r.IntN(2) == 0 {
					redraw(r, g, r.IntN(g.Nodes())) // a pod was bound
				}
				if r.IntN(2) == 0 {
					g.Kept[r.IntN(g.Nodes())] = randomKept(r, net) // a scrape
				}
			}
		})
	}
	plain, _ := network(t, checkpoint.GNN, 8)
	g := randomGraph(rand.New(rand.NewPCG(1, 1)), 3)
	g.Kept = make([]feature.Kept, 3)
	if _, err := plain.NewSession().Score(g, nil); err == nil {
		t.Error("a network whose features cannot be split scored a split graph")
	}
}

func randomKept(r *rand.Rand, net *Network) feature.Kept {
	return feature.Kept{X: uniform(r, net.Layout().Split.Len), Stamp: graph.NextStamp()}
}

// splitRandomly draws new candidates and their numbers. It returns the whole graph.
func splitRandomly(r *rand.Rand, net *Network, g *graph.Graph) *graph.Graph {
	choose(r, g)
	split := net.Layout().Split
	whole := *g
	whole.Kept, whole.CandidateX = nil, nil
	g.SplitX, g.CandidateX = uniform(r, len(g.Candidates)*split.Width()), nil
	for i, v := range g.Candidates {
		whole.CandidateX = append(whole.CandidateX, wholeRow(split, g.SplitX[i*split.Width():(i+1)*split.Width()], g.Kept[v].X)...)
	}
	return &whole
}

// wholeRow returns the features of a split row by the definition of a split: those of other blocks as they are, and of the block
// that is split the kept numbers plus the moving ones that are added to them.
func wholeRow(split *feature.SplitLayout, row, kept []float32) []float32 {
	moving := len(split.Adds)
	block := slices.Clone(kept)
	for m, adds := range split.Adds {
		for _, f := range adds {
			block[f] += row[split.At+m]
		}
	}
	return slices.Concat(row[:split.At], block, row[split.At+moving:])
}

// A session that gives up while it keeps what nodes have computes the rest the next time.
func TestSplitDeadline(t *testing.T) {
	net, c := networkOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8,
		Features: []string{"base", "usage"}})
	r := rand.New(rand.NewPCG(5, 6))
	g, s := randomGraphOf(r, net.Layout().Widths, 3*checkEvery), net.NewSession()
	g.Kept = make([]feature.Kept, g.Nodes())
	for i := range g.Kept {
		g.Kept[i] = randomKept(r, net)
	}
	splitRandomly(r, net, g)
	g.Candidates = g.Candidates[:0]
	for v := range g.Nodes() {
		g.Candidates = append(g.Candidates, int32(v))
	}
	g.SplitX = uniform(r, g.Nodes()*net.Layout().Split.Width())
	fatal.If(t, s.refresh(g, func() bool { return false }))
	for after := range 2 { // the rows of the cluster are up to date: looks after the context, then in keepParts
		calls := 0
		if _, err := s.Score(g, func() bool { calls++; return calls > 1+after }); !errors.Is(err, ErrDeadline) {
			t.Fatalf("after %d looks: %v", 1+after, err)
		}
		if done, want := kept(s, g), checkEvery*(after+1)-1; after == 0 && done != want {
			t.Fatalf("%d rows are kept, want %d", done, want)
		}
	}
	out, err := s.Score(g, nil)
	fatal.If(t, err)
	whole, split := *g, net.Layout().Split
	whole.Kept, whole.SplitX, whole.CandidateX = nil, nil, nil
	for i, v := range g.Candidates {
		whole.CandidateX = append(whole.CandidateX, wholeRow(split, g.SplitX[i*split.Width():(i+1)*split.Width()], g.Kept[v].X)...)
	}
	sameAsReference(t, c, &whole, out)
}

// kept returns the number of rows whose kept part is up to date.
func kept(s *Session, g *graph.Graph) (n int) {
	for i := range g.Nodes() {
		if s.keptRows[i].numbers == g.Kept[i].Stamp {
			n++
		}
	}
	return n
}
