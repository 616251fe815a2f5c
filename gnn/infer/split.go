package infer

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// summed returns the map from a split row: the weights of each number are the sums of those of the features that it is added to.
func (d dense) summed(split *feature.SplitLayout) dense {
	out := dense{in: split.Width(), out: d.out, wT: make([]float32, split.Width()*d.out)}
	for i, features := range split.To {
		for _, f := range features {
			for j, w := range d.wT[f*d.out : (f+1)*d.out] {
				out.wT[i*d.out+j] += w
			}
		}
	}
	return out
}

// rows returns the map from count of the inputs, from the given one on.
func (d dense) rows(from, count int) dense {
	return dense{in: count, out: d.out, wT: d.wT[from*d.out : (from+count)*d.out]}
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
