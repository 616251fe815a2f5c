package infer

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// The errors of a pass, which then gives no scores.
var (
	ErrDeadline = errors.New("deadline of the forward pass missed")
	ErrNaN      = errors.New("the network gave a value that is not finite")
)

// errWidths is a programmer's error: encoder and network were made for different features.
var errWidths = errors.New("the graph has other features than the network reads")

// Session runs a network over a sequence of graphs that change little from one to the next.
// It is not safe for concurrent use; sessions of one network run in parallel.
type Session struct {
	net  *Network
	star star

	stamp     []uint64    // N: graph stamp that row i was computed for
	zone      []int32     // N: zone that row i was added to
	embedding []float32   // N × H: h_v
	partial   []float32   // N × H: A h_v
	zoneSum   [][]float64 // Z: sum of h_v over the zone, in float64 so that it does not drift
	zoneCount []int

	vectors [][]float32 // by layer: of the pod, the cluster, or all zones

	// scratch, grown as needed
	message, scores, base, mean, k []float32
}

// NewSession returns a session with nothing kept yet.
func (n *Network) NewSession() *Session {
	h := n.h
	return &Session{
		net: n, star: newStar(n.program), vectors: make([][]float32, len(n.program)), message: make([]float32, h), mean: make([]float32, h),
	}
}

// checkEvery is the number of rows between two checks of the deadline.
const checkEvery = 128

// Score runs the network. It calls expired now and then, unless it is nil, and gives up with
// ErrDeadline once expired returns true. The graph must be valid and hold the features of the
// network's Layout. There is a score for each candidate, in the graph's order; larger is better. They are valid until the next call.
func (s *Session) Score(g *graph.Graph, expired func() bool) ([]float32, error) {
	if expired == nil {
		expired = func() bool { return false }
	}
	if !g.Has(s.net.layout.Widths) {
		return nil, errWidths
	}
	if err := s.refresh(g, expired); err != nil {
		return nil, err
	}
	s.context(g)
	if expired() {
		return nil, ErrDeadline
	}
	return s.candidates(g, expired)
}

// refresh brings the kept rows and sums up to date with the graph.
func (s *Session) refresh(g *graph.Graph, expired func() bool) error {
	n := g.Nodes()
	for i := n; i < len(s.stamp); i++ {
		s.forget(i)
	}
	s.stamp, s.zone = grow(s.stamp, n), grow(s.zone, n)
	s.embedding, s.partial = grow(s.embedding, n*s.net.h), grow(s.partial, n*s.net.h)
	for len(s.zoneSum) < g.Zones {
		s.zoneSum = append(s.zoneSum, make([]float64, s.net.h))
		s.zoneCount = append(s.zoneCount, 0)
	}
	done := 0
	for i, st := range g.Stamp {
		if s.stamp[i] == st {
			continue
		}
		if done++; done%checkEvery == 0 && expired() {
			return ErrDeadline
		}
		s.forget(i)
		s.embed(g, i)
		s.stamp[i], s.zone[i] = st, g.Zone[i]
		sum := s.zoneSum[g.Zone[i]]
		for j, v := range s.embedding[i*s.net.h : (i+1)*s.net.h] {
			sum[j] += float64(v)
		}
		s.zoneCount[g.Zone[i]]++
	}
	return nil
}

// forget takes row i out of its zone's sum, if it is in it.
func (s *Session) forget(i int) {
	if s.stamp[i] == 0 {
		return
	}
	sum := s.zoneSum[s.zone[i]]
	for j, v := range s.embedding[i*s.net.h : (i+1)*s.net.h] {
		sum[j] -= float64(v)
	}
	s.zoneCount[s.zone[i]]--
	if s.zoneCount[s.zone[i]] == 0 {
		clear(sum) // the rest is rounding error
	}
	s.stamp[i] = 0
}

// embed computes h_v and A h_v of row i.
func (s *Session) embed(g *graph.Graph, i int) {
	n, h := s.net, s.net.h
	s.star.run(surroundings{x: g.NodeRow(i), groups: g.Groups[i]})
	out := s.embedding[i*h : (i+1)*h]
	copy(out, s.star.vectors[n.node])
	p := s.partial[i*h : (i+1)*h]
	clear(p)
	for t := range n.candidate.nodes {
		n.candidate.nodes[t].add(p, out, 1)
	}
}

// context computes pod, cluster and zones, and the part of a candidate's hidden vector that all
// candidates of a zone share.
func (s *Session) context(g *graph.Graph) {
	n, h := s.net, s.net.h
	for _, i := range n.context {
		o, rows := &n.program[i], 1
		if o.Of == checkpoint.Zone {
			rows = g.Zones
		}
		y := grow(s.vectors[i], rows*o.Width)
		clear(y)
		for r := range rows {
			for t := range o.terms {
				o.terms[t].add(y[r*o.Width:(r+1)*o.Width], s.input(g, o, &o.terms[t], r), 1)
			}
		}
		o.finish(y, rows)
		s.vectors[i] = y
	}
	s.base = grow(s.base, max(g.Zones, 1)*h)
	base := s.base[:h]
	clear(base)
	for t := range n.candidate.shared {
		n.candidate.shared[t].add(base, s.vectors[n.candidate.shared[t].from[0]], 1)
	}
	for k := 1; k < g.Zones; k++ {
		copy(s.base[k*h:], base)
	}
	for t := range n.candidate.zones {
		x := &n.candidate.zones[t]
		for k := range g.Zones {
			x.add(s.base[k*h:(k+1)*h], s.vectors[x.from[0]][k*x.in:(k+1)*x.in], 1)
		}
	}
}

// input returns what a term of a layer of the pod, the cluster or the zones reads, for zone r.
func (s *Session) input(g *graph.Graph, o *op, t *term, r int) []float32 {
	switch from := s.net.source(t); {
	case from == 0 && o.Of == checkpoint.Pod:
		return g.PodX
	case from == 0:
		return g.ClusterX
	case from == checkpoint.Node && o.Of == checkpoint.Zone:
		for j, v := range s.zoneSum[r] {
			s.mean[j] = float32(v / float64(max(s.zoneCount[r], 1)))
		}
		return s.mean
	case from == checkpoint.Node:
		for j := range s.mean {
			var sum float64
			for _, z := range s.zoneSum[:g.Zones] {
				sum += z[j]
			}
			s.mean[j] = float32(sum / float64(max(g.Nodes(), 1)))
		}
		return s.mean
	}
	return s.vectors[t.from[0]]
}

// candidates computes the scores s · ReLU(A h + what its zone shares + E e).
func (s *Session) candidates(g *graph.Graph, expired func() bool) ([]float32, error) {
	n, c, h := s.net, len(g.Candidates), s.net.h
	s.scores, s.k = grow(s.scores, c), grow(s.k, h)
	var sum float32 // of all scores: NaN and infinity survive a sum
	for i, v := range g.Candidates {
		if (i+1)%checkEvery == 0 && expired() {
			return nil, ErrDeadline
		}
		base := s.base[int(g.Zone[v])*h:]
		for j, x := range s.partial[int(v)*h : (int(v)+1)*h] {
			s.k[j] = x + base[j]
		}
		n.own.addProduct(s.k, g.CandidateRow(i), 1)
		relu(s.k)
		s.scores[i] = Dot(s.k, n.score)
		sum += s.scores[i] - s.scores[i] // 0, or NaN if the score is not finite
	}
	if sum != sum {
		return nil, fmt.Errorf("%w among %d candidates", ErrNaN, c)
	}
	return s.scores[:c], nil
}

// layerNorm sets y to x normalised to mean 0 and variance 1, scaled and shifted: Ba et al.
// 2016, with epsilon 1e-5 as in PyTorch.
func layerNorm(y, x, weight, bias []float32) {
	var mean, variance float64
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	inv := 1 / math.Sqrt(variance/float64(len(x))+1e-5)
	for j, v := range x {
		y[j] = float32((float64(v)-mean)*inv)*weight[j] + bias[j]
	}
}

// grow returns s with length n; the content of new elements is undefined.
func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}
