package infer

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// Reading returns what the last Score of the same graph read of candidate i: the features of its node (Widths.Node),
// the features of the candidate (Widths.Candidate), the part of k that it shares with the candidates of its zone (H:
// A' z + A" c + B p), with messages the mean message of the node's groups (H), with paths what comes from the pod's
// peers (H), and with a residual the decision's trust (1) and emphasis (Widths.Candidate). See Network.ScoreOf.
func (s *Session) Reading(g *graph.Graph, i int) []float32 {
	n, v := s.net, int(g.Candidates[i])
	h := n.h
	out := slices.Concat(g.NodeRow(v), s.candidateRow(g, i), s.base[int(g.Zone[v])*h:][:h])
	s.star.run(surroundings{x: g.NodeRow(v), groups: g.Groups[v]})
	for i := range n.program[:n.node+1] {
		o := &n.program[i]
		for _, t := range n.of(o, checkpoint.Group) {
			message := make([]float32, t.in)
			if in := (surroundings{groups: g.Groups[v]}); in.rows(checkpoint.Group) > 0 {
				copy(message, s.star.collect(&t, &in))
			}
			out = append(out, message...)
		}
	}
	if len(n.candidate.paths) > 0 {
		peers := make([]float32, h)
		if part := s.partial[v*h : (v+1)*h]; len(g.Peers) > 0 {
			for j, x := range s.peerPart(g, i, part) {
				peers[j] = x - part[j]
			}
		}
		out = append(out, peers...)
	}
	if n.rule != nil {
		out = slices.Concat(out, s.vectors[n.trust], s.vectors[n.rule.scale])
	}
	return out
}

// Attribution is the part of a difference of scores that a feature made.
type Attribution struct {
	Name string // "node:" or "candidate:" and the feature's name, "zone", "groups", "peers" or "emphasis"
	// From and To are the feature's values; 0 for the last four, which are vectors.
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
	blocks, vectors := []string{"zone", "groups", "peers"}, len(from)-n.emphasis()
	for j := len(names); j < len(from); j++ {
		switch {
		case j == vectors:
			out = append(out, Attribution{Name: "emphasis"})
		case j < vectors && (j-len(names))%n.h == 0:
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
	want := n.layout.Widths.Node + n.layout.Widths.Candidate + n.h + n.messages() + n.emphasis()
	if len(n.candidate.paths) > 0 {
		want += n.h
	}
	if len(reading) != want {
		return fmt.Errorf("the reading has %d numbers, the network reads %d", len(reading), want)
	}
	return nil
}

// messages returns how many numbers the nodes' layers read of the groups.
func (n *Network) messages() (width int) {
	for i := range n.program {
		for _, t := range n.of(&n.program[i], checkpoint.Group) {
			width += t.in
		}
	}
	return width
}

// ByRuleAlone reports whether the network changed nothing of its rule in the decision of a Reading, which fits: the emphasis is 0 there,
// as from tooLarge nodes on (gnn/feature/rule.go). What the rest of the network adds, if it adds anything, does not count.
func (n *Network) ByRuleAlone(reading []float32) bool {
	return n.rule != nil && !slices.ContainsFunc(reading[len(reading)-n.layout.Widths.Candidate:], func(v float32) bool { return v != 0 })
}

// emphasis returns how many numbers trust and emphasis are.
func (n *Network) emphasis() int {
	if n.rule == nil {
		return 0
	}
	return 1 + n.layout.Widths.Candidate
}

// score computes a score, and its gradient unless that is nil.
func (n *Network) score(x, gradient []float64) (score float64) {
	at := 0
	next := func(width int) *cell {
		at += width
		return &cell{x[at-width : at], make([]float64, width)}
	}
	in, own, base := leaves{x: next(n.layout.Widths.Node)}, next(n.layout.Widths.Candidate), next(n.h)
	all := []*cell{in.x, own, base}
	for at < n.layout.Widths.Node+n.layout.Widths.Candidate+n.h+n.messages() {
		in.messages = append(in.messages, next(n.h))
	}
	all = append(all, in.messages...)
	var t tape
	k, added := newCell(n.h), &term{}
	t.add(k, added, base)
	node := t.node(n.program, in, n.node)
	for i := range n.candidate.nodes {
		t.add(k, &n.candidate.nodes[i], node)
	}
	t.add(k, &term{dense: n.own.e}, own)
	if len(n.candidate.paths) > 0 {
		peers := next(n.h)
		all = append(all, peers)
		t.add(k, added, peers)
	}
	trust, open := &cell{make([]float64, 1), make([]float64, 1)}, t.finish(&op{Layer: checkpoint.Layer{ReLU: true}}, k)
	if n.rule != nil {
		trust = next(1)
		emphasis := next(n.layout.Widths.Candidate)
		all = append(all, trust, emphasis)
		score = weighed(n.rule, emphasis, own)
	}
	for j, v := range open.x {
		w := float64(n.own.score[j])
		open.d[j] = (1 + trust.x[0]) * w
		trust.d[0] += v * w
		score += v * open.d[j]
	}
	if gradient == nil {
		return score
	}
	t.backward()
	at = 0
	for _, c := range all {
		at += copy(gradient[at:], c.d)
	}
	return score
}

// weighed returns the rule's part of a score, and adds its gradients.
func weighed(rule *term, emphasis, own *cell) (sum float64) {
	for i, w := range rule.wT {
		all := float64(w) * (1 + emphasis.x[i])
		sum += all * own.x[i]
		own.d[i] += all
		emphasis.d[i] += float64(w) * own.x[i]
	}
	return sum
}
