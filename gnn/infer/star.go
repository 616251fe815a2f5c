package infer

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// star runs the layers of a node and of what is on it. It is not safe for concurrent use.
type star struct {
	program
	vectors [][]float32 // by layer: those of its vertices on the node that ran last
	message []float32   // scratch
}

// surroundings are a node's features, the pods and the devices on it.
type surroundings struct {
	x      []float32
	groups graph.Groups
	free   []float32 // free part of each device
}

func newStar(p program) star { return star{program: p, vectors: make([][]float32, len(p))} }

// rows returns the number of vertices of a kind; 0 for kinds that are not on a node.
func (in *surroundings) rows(kind checkpoint.Kind) int {
	switch kind {
	case checkpoint.Node:
		return 1
	case checkpoint.Group:
		return len(in.groups.Weight)
	case checkpoint.Device:
		return len(in.free)
	}
	return 0
}

// run computes the vectors of all layers of a node, its groups and its devices.
func (s *star) run(in surroundings) {
	for i := range s.program {
		o := &s.program[i]
		rows := in.rows(o.Of)
		if rows == 0 {
			continue
		}
		y := grow(s.vectors[i], rows*o.Width)
		clear(y)
		for j := range o.terms {
			s.add(y, o, &o.terms[j], &in)
		}
		o.finish(y, rows)
		s.vectors[i] = y
	}
}

// add adds a term to the sums y of a layer.
func (s *star) add(y []float32, o *op, t *term, in *surroundings) {
	from, rows := s.source(t), in.rows(o.Of)
	switch {
	case from == 0 && o.Of == checkpoint.Node:
		t.add(y, in.x, 1)
	case from == 0 && o.Of == checkpoint.Group:
		t.add(y, in.groups.X, rows)
	case from == 0:
		t.addKnots(y, in.free)
	case from == o.Of:
		t.add(y, s.vectors[t.from[0]], rows)
	case from == checkpoint.Node: // to each vertex on the node
		for r := range rows {
			t.add(y[r*o.Width:(r+1)*o.Width], s.vectors[t.from[0]], 1)
		}
	case in.rows(from) > 0:
		t.add(y, s.collect(t, in), 1)
	}
}

// collect makes one vector of those that the vertices on a node send: of groups the mean, weighted by pods; of devices the sum.
func (s *star) collect(t *term, in *surroundings) []float32 {
	x, width := s.vectors[t.from[0]], s.program[t.from[0]].Width
	s.message = grow(s.message, width)
	clear(s.message)
	if s.source(t) == checkpoint.Device {
		for len(x) > 0 {
			for j, v := range x[:width] {
				s.message[j] += v
			}
			x = x[width:]
		}
		return s.message
	}
	var total float32
	for r, w := range in.groups.Weight {
		total += w
		for j, v := range x[r*width : (r+1)*width] {
			s.message[j] += w * v
		}
	}
	for j := range s.message {
		s.message[j] /= total
	}
	return s.message
}

// addKnots adds to each row of y the interpolated vector of a device's free part; see graph.Knots.
func (t *term) addKnots(y, free []float32) {
	for d, f := range free {
		k, next := graph.Knots(f)
		low, high := t.wT[k*t.out:(k+1)*t.out], t.wT[(k+1)*t.out:(k+2)*t.out]
		row := y[d*t.out : (d+1)*t.out]
		for j := range row {
			row[j] = row[j] + (1-next)*low[j] + next*high[j]
		}
	}
}
