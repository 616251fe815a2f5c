package infer

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// Reading returns what the last Score of the same graph read of candidate i: the features of its node (Widths.Node),
// the features of the candidate (Widths.Candidate), the part of k that it shares with the candidates of its zone (H:
// A' z + A" c + B p), with messages the mean message of the node's groups (H), and with paths what comes from the pod's
// peers (H). See Network.ScoreOf.
func (s *Session) Reading(g *graph.Graph, i int) []float32 {
	n, v := s.net, int(g.Candidates[i])
	h := n.h
	out := slices.Concat(g.NodeRow(v), s.candidateRow(g, i), s.base[int(g.Zone[v])*h:][:h])
	if !n.messages() {
		return out
	}
	message := make([]float32, h)
	if groups := g.Groups[v]; len(groups.Weight) > 0 {
		rows, total := make([]float32, len(groups.Weight)*h), float32(0)
		n.group.addRows(rows, groups.X, len(groups.Weight))
		relu(rows)
		for r, w := range groups.Weight {
			total += w
			for j, x := range rows[r*h : (r+1)*h] {
				message[j] += w * x
			}
		}
		for j := range message {
			message[j] /= total
		}
	}
	out = append(out, message...)
	if !n.paths() {
		return out
	}
	peers := make([]float32, h)
	if part := s.partial[v*h : (v+1)*h]; len(g.Peers) > 0 {
		for j, x := range s.peerPart(g, i, part) {
			peers[j] = x - part[j]
		}
	}
	return append(out, peers...)
}

// Attribution is the part of a difference of scores that a feature made.
type Attribution struct {
	Name string // "node:" or "candidate:" and the feature's name, "zone", "groups" or "peers"
	// From and To are the feature's values; 0 for the last three, which are vectors.
	From, To float64
	Part     float64
}

// Names returns the names of the single features at the beginning of a Reading, in order.
func (n *Network) Names() (names []string) {
	for _, f := range feature.List(n.layout.Node) {
		names = append(names, "node:"+f.Name)
	}
	for _, f := range feature.List(n.layout.Candidate) {
		names = append(names, "candidate:"+f.Name)
	}
	return names
}

// Domains returns the domains of the features that Names names.
func (n *Network) Domains() (out []feature.Domain) {
	for _, f := range append(feature.List(n.layout.Node), feature.List(n.layout.Candidate)...) {
		out = append(out, f.In)
	}
	return out
}

// steps is the number of points of the midpoint rule at which Attribute takes gradients.
const steps = 2048

// Attribute divides ScoreOf(to) - ScoreOf(from) among the features: integrated gradients (Sundararajan et al. 2017)
// along the straight line between two readings. The parts add up to the difference but for the error of the
// midpoint rule.
func (n *Network) Attribute(from, to []float32) ([]Attribution, error) {
	if err := n.fits(from); err != nil {
		return nil, err
	}
	if err := n.fits(to); err != nil {
		return nil, err
	}
	x, sum, gradient := make([]float64, len(from)), make([]float64, len(from)), make([]float64, len(from))
	for k := range steps {
		at := (float64(k) + 0.5) / steps
		for j := range x {
			x[j] = float64(from[j]) + at*(float64(to[j])-float64(from[j]))
		}
		n.score(x, gradient)
		for j, d := range gradient {
			sum[j] += d / steps
		}
	}
	var out []Attribution
	names := n.Names()
	for j, name := range names {
		out = append(out, Attribution{name, float64(from[j]), float64(to[j]), sum[j] * (float64(to[j]) - float64(from[j]))})
	}
	blocks := []string{"zone", "groups", "peers"}
	for j := len(names); j < len(from); j++ {
		if (j-len(names))%n.h == 0 {
			out = append(out, Attribution{Name: blocks[(j-len(names))/n.h]})
		}
		out[len(out)-1].Part += sum[j] * (float64(to[j]) - float64(from[j]))
	}
	return out, nil
}

// ScoreOf computes a candidate's score from its Reading, in float64.
func (n *Network) ScoreOf(reading []float32) (float64, error) {
	if err := n.fits(reading); err != nil {
		return 0, err
	}
	x := make([]float64, len(reading))
	for i, v := range reading {
		x[i] = float64(v)
	}
	return n.score(x, nil), nil
}

func (n *Network) fits(reading []float32) error {
	want := n.layout.Widths.Node + n.layout.Widths.Candidate + n.h
	if n.messages() {
		want += n.h
	}
	if n.paths() {
		want += n.h
	}
	if len(reading) != want {
		return fmt.Errorf("the reading has %d numbers, the network reads %d", len(reading), want)
	}
	return nil
}

// score computes a score, and its gradient unless that is nil.
func (n *Network) score(x, gradient []float64) (score float64) {
	h, nodeWidth, width := n.h, n.layout.Widths.Node, n.layout.Widths.Candidate
	node, candidate, base, messages := x[:nodeWidth], x[nodeWidth:nodeWidth+width], x[nodeWidth+width:nodeWidth+width+h], x[nodeWidth+width+h:]
	row := n.node.product(node)
	if n.messages() {
		for j, v := range n.nodeGroup.product(messages[:h]) {
			row[j] += v
		}
	}
	unit, inverse := unitOf(row)
	hidden := make([]float64, h)
	for j, u := range unit {
		hidden[j] = max(u*float64(n.normW[j])+float64(n.normB[j]), 0)
	}
	part, own := n.candNode.product(hidden), n.scorer.e.product(candidate)
	open := make([]float64, h) // the gradient with respect to k before its ReLU
	for j := range open {
		k := part[j] + base[j] + own[j]
		if n.paths() {
			k += messages[h+j]
		}
		if k > 0 {
			open[j] = float64(n.scorer.score[j])
			score += k * open[j]
		}
	}
	if gradient == nil {
		return score
	}
	copy(gradient[nodeWidth:], n.scorer.e.back(open))
	copy(gradient[nodeWidth+width:], open)
	back := n.candNode.back(open)
	var mean, along float64
	for j := range back {
		if hidden[j] == 0 {
			back[j] = 0
		}
		back[j] *= float64(n.normW[j])
		mean += back[j] / float64(h)
		along += back[j] * unit[j] / float64(h)
	}
	for j := range back { // through the normalisation
		back[j] = (back[j] - mean - unit[j]*along) * inverse
	}
	copy(gradient, n.node.back(back))
	if n.messages() {
		copy(gradient[nodeWidth+width+h:], n.nodeGroup.back(back))
	}
	if n.paths() {
		copy(gradient[nodeWidth+width+2*h:], open)
	}
	return score
}

// unitOf returns x with mean 0 and variance 1, as layerNorm, and 1 / the deviation.
func unitOf(x []float64) (unit []float64, inverse float64) {
	var mean, variance float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	inverse = 1 / math.Sqrt(variance+1e-5)
	unit = make([]float64, len(x))
	for j, v := range x {
		unit[j] = (v - mean) * inverse
	}
	return unit, inverse
}

// product returns W x + b in float64.
func (d dense) product(x []float64) []float64 {
	y := make([]float64, d.out)
	for j, b := range d.b {
		y[j] = float64(b)
	}
	for i, v := range x {
		for j, w := range d.wT[i*d.out : (i+1)*d.out] {
			y[j] += v * float64(w)
		}
	}
	return y
}

// back returns the transposed of W times y: the gradient with respect to x.
func (d dense) back(y []float64) []float64 {
	x := make([]float64, d.in)
	for i := range x {
		for j, w := range d.wT[i*d.out : (i+1)*d.out] {
			x[i] += y[j] * float64(w)
		}
	}
	return x
}
