package infer

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
)

// Reading returns what the last Score of the same graph read of candidate i: the features of its node (Widths.Node),
// the features of the candidate (Widths.Candidate), the part of k that it shares with the candidates of its zone (H:
// A' z + A" c + B p), and with messages the mean message of the node's groups (H). See Network.ScoreOf.
func (s *Session) Reading(g *graph.Graph, i int) []float32 {
	n, v := s.net, int(g.Candidates[i])
	h := n.h
	out := slices.Concat(g.NodeRow(v), g.CandidateRow(i), s.base[int(g.Zone[v])*h:][:h])
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
	return out
}

// Attribution is the part of a difference of scores that a feature made.
type Attribution struct {
	Name string // "node:" or "candidate:" and the feature's name, "zone" or "groups"
	// From and To are the feature's values; 0 for the last two, which are vectors.
	From, To float64
	Part     float64
}

// Names returns the names of the single features at the beginning of a Reading, in order.
func (n *Network) Names() (names []string) {
	names = each.Map(feature.List(n.layout.Node), func(f feature.Feature) string { return "node:" + f.Name })
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
		n.scored(x, gradient)
		for j, d := range gradient {
			sum[j] += d / steps
		}
	}
	var out []Attribution
	names := n.Names()
	for j, name := range names {
		out = append(out, Attribution{name, float64(from[j]), float64(to[j]), sum[j] * (float64(to[j]) - float64(from[j]))})
	}
	blocks := []string{"zone", "groups"}
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
	x := each.Map(reading, func(v float32) float64 { return float64(v) })
	return n.scored(x, nil), nil
}

func (n *Network) fits(reading []float32) error {
	want := n.layout.Widths.Node + n.layout.Widths.Candidate + n.h + n.messages()
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

// scored computes a score, and its gradient unless that is nil.
func (n *Network) scored(x, gradient []float64) (score float64) {
	at := 0
	next := func(width int) *cell {
		at += width
		return &cell{x[at-width : at], make([]float64, width)}
	}
	in, own, base := leaves{x: next(n.layout.Widths.Node)}, next(n.layout.Widths.Candidate), next(n.h)
	all := []*cell{in.x, own, base}
	for at < len(x) {
		in.messages = append(in.messages, next(n.h))
	}
	all = append(all, in.messages...)
	var t tape
	k := newCell(n.h)
	t.add(k, &term{}, base)
	node := t.node(n.program, in, n.node)
	for i := range n.candidate.nodes {
		t.add(k, &n.candidate.nodes[i], node)
	}
	t.add(k, &term{dense: n.own}, own)
	open := t.finish(&op{Layer: checkpoint.Layer{ReLU: true}}, k)
	for j, v := range open.x {
		open.d[j] = float64(n.score[j])
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

// StepReading returns what a session reads of a node before and after a placement: the features of both (Widths.Node
// each), ψ of the cluster (Width), and the free parts of the devices before and after. See Network.AttributeStep.
func StepReading(before, after *graph.GPUNode, psi []float32) []float32 {
	return slices.Concat(before.X, after.X, psi, before.Free, after.Free)
}

// step is a StepReading in parts, in float64.
type step struct{ before, after, psi, freeBefore, freeAfter []float64 }

func (n *Network) step(reading []float32) (step, error) {
	width, h := n.layout.Widths.Node, n.Width()
	devices := len(reading) - 2*width - h
	if devices < 0 || devices%2 != 0 {
		return step{}, fmt.Errorf("the reading has %d numbers, and the network reads %d besides two for each device", len(reading), 2*width+h)
	}
	x := each.Map(reading, func(v float32) float64 { return float64(v) })
	free := x[2*width+h:]
	return step{x[:width], x[width : 2*width], x[2*width : 2*width+h], free[:devices/2], free[devices/2:]}, nil
}

// AttributeStep cuts the line between two states into pieces, and those with a kink in half, up to halvings times.
const (
	pieces   = 64
	halvings = 8
)

// AttributeStep divides by how much a placement lowers the value of a node, v(before) - v(after), among the node's
// features, "node:" and their names, and its devices, "device 0" and so on: integrated gradients along the straight line between the two
// states. From and To are before and after. The value is linear but for kinks along the line. Within a piece with one kink, its
// place follows from the values and slopes at both ends, so the parts add up to the difference but for the smallest pieces with several.
func (n *Network) AttributeStep(reading []float32) ([]Attribution, error) {
	s, err := n.step(reading)
	if err != nil {
		return nil, err
	}
	var out []Attribution
	for j, f := range feature.List(n.layout.Node) {
		out = append(out, Attribution{Name: "node:" + f.Name, From: s.before[j], To: s.after[j]})
	}
	for d := range s.freeBefore {
		out = append(out, Attribution{Name: fmt.Sprint("device ", d), From: s.freeBefore[d], To: s.freeAfter[d]})
	}
	l := &line{tower: n.actor, step: s, parts: out}
	last := l.at(0)
	for k := range pieces {
		next := l.at(float64(k+1) / pieces)
		l.add(last, next, halvings)
		last = next
	}
	return out, nil
}

// line is the straight line between two states.
type line struct {
	*tower
	step
	parts []Attribution
}

// point is a place on a line, 0 to 1: the value, its slope along the whole line, and its gradient.
type point struct {
	at, value, slope float64
	gradient         []float64
}

func (l *line) at(at float64) point {
	x, p := make([]float64, len(l.parts)), point{at: at, gradient: make([]float64, len(l.parts))}
	for j, a := range l.parts {
		x[j] = a.From + at*(a.To-a.From)
	}
	width := len(l.before)
	p.value = l.valueOf(x[:width], x[width:], l.psi, p.gradient)
	for j, a := range l.parts {
		p.slope += p.gradient[j] * (a.To - a.From)
	}
	return p
}

// add integrates over a piece, which is halved at most so many times more.
func (l *line) add(a, b point, halvings int) {
	length := b.at - a.at
	slope := (b.value - a.value) / length
	straight := func(p point) bool { return math.Abs(slope-p.slope) <= 1e-6*(1+math.Abs(slope)) }
	share := 0.5 // of the piece that has the slope of a
	switch {
	case straight(a):
		share = 1
	case straight(b):
		share = 0
	case halvings > 0:
		middle := l.at((a.at + b.at) / 2)
		l.add(a, middle, halvings-1)
		l.add(middle, b, halvings-1)
		return
	case a.slope != b.slope:
		share = min(max((slope-b.slope)/(a.slope-b.slope), 0), 1)
	}
	for j, p := range l.parts {
		l.parts[j].Part -= (share*a.gradient[j] + (1-share)*b.gradient[j]) * (p.To - p.From) * length
	}
}

// StepScore returns v(before) - v(after), in float64.
func (n *Network) StepScore(reading []float32) (float64, error) {
	s, err := n.step(reading)
	if err != nil {
		return 0, err
	}
	return n.actor.valueOf(s.before, s.freeBefore, s.psi, nil) - n.actor.valueOf(s.after, s.freeAfter, s.psi, nil), nil
}

// valueOf computes the value of a node with features x and free parts of its devices, and its gradient with respect to both, x first,
// unless gradient is nil.
func (t *tower) valueOf(x, free, psi, gradient []float64) (value float64) {
	clear(gradient)
	if len(free) == 0 {
		return 0
	}
	in := leaves{x: &cell{x, make([]float64, len(x))}}
	for d := range free {
		in.free = append(in.free, &cell{free[d : d+1], make([]float64, 1)})
	}
	var tape tape
	phi := tape.node(t.program, in, t.node)
	for j, v := range phi.x {
		value += v * psi[j]
		phi.d[j] = psi[j]
	}
	if gradient == nil {
		return value
	}
	tape.backward()
	at := copy(gradient, in.x.d)
	for d := range in.free {
		gradient[at+d] = in.free[d].d[0]
	}
	return value
}
