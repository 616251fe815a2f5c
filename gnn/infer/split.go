package infer

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// splitWeights returns the weights of the numbers of a split row (out × split.Width()) for those of the features
// (out × in): the sums of the weights of the features that a number is added to.
func splitWeights(w []float32, split *feature.SplitLayout, out, in int) []float32 {
	sums := make([]float32, 0, out*split.Width())
	for o := range out {
		for _, features := range split.To {
			var sum float32
			for _, f := range features {
				sum += w[o*in+f]
			}
			sums = append(sums, sum)
		}
	}
	return sums
}

// columns returns count columns of w, which has in columns, from the given one.
func columns(w []float32, from, count, in int) (part []float32) {
	for ; len(w) > 0; w = w[in:] {
		part = append(part, w[from:from+count]...)
	}
	return part
}

// keptRow is the state for which the kept part of a row was computed.
type keptRow struct {
	embedding uint64 // the row's stamp
	numbers   uint64 // stamp of the kept numbers
}

// keepParts brings the kept parts of the candidates in a split graph up to date: A h_v plus what the kept numbers of
// row v give. What is done when it gives up with ErrDeadline stays.
func (s *Session) keepParts(g *graph.Graph, expired func() bool) error {
	h := s.net.h
	s.keptRows, s.keptParts = grow(s.keptRows, g.Nodes()), grow(s.keptParts, g.Nodes()*h)
	done := 0
	for _, v := range g.Candidates {
		state := keptRow{s.stamp[v], g.Kept[v].Stamp}
		if s.keptRows[v] == state {
			continue
		}
		if done++; done%checkEvery == 0 && expired() {
			return ErrDeadline
		}
		out := s.keptParts[int(v)*h : (int(v)+1)*h]
		copy(out, s.partial[int(v)*h:(int(v)+1)*h])
		s.net.kept.addProduct(out, g.Kept[v].X, 1)
		s.keptRows[v] = state
	}
	return nil
}

// candidateRow returns the features of candidate i.
func (s *Session) candidateRow(g *graph.Graph, i int) []float32 {
	if g.Kept == nil {
		return g.CandidateRow(i)
	}
	split := s.net.layout.Split
	return split.Whole(g.SplitX[i*split.Width():(i+1)*split.Width()], g.Kept[g.Candidates[i]].X)
}
