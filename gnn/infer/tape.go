package infer

import (
	"math"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// cell is a vector with its gradient.
type cell struct{ x, d []float64 }

func newCell(n int) *cell { return &cell{make([]float64, n), make([]float64, n)} }

// tape computes in float64 what a session computes, and remembers how to follow it back.
type tape struct{ back []func() }

// backward adds to the gradients of all cells those that follow from the gradient of the last.
func (t *tape) backward() {
	for i := len(t.back) - 1; i >= 0; i-- {
		t.back[i]()
	}
}

// add adds the term of x to y.
func (t *tape) add(y *cell, by *term, x *cell) {
	if by.in == 0 {
		for j, v := range x.x {
			y.x[j] += v
		}
		t.back = append(t.back, func() {
			for j, d := range y.d {
				x.d[j] += d
			}
		})
		return
	}
	for j, b := range by.b {
		y.x[j] += float64(b)
	}
	for i, v := range x.x {
		for j, w := range by.wT[i*by.out : (i+1)*by.out] {
			y.x[j] += v * float64(w)
		}
	}
	t.back = append(t.back, func() {
		for i := range x.d {
			for j, w := range by.wT[i*by.out : (i+1)*by.out] {
				x.d[i] += y.d[j] * float64(w)
			}
		}
	})
}

// addKnots adds the interpolated vector of a device's free part to y.
func (t *tape) addKnots(y *cell, by *term, free *cell) {
	k, _ := graph.Knots(float32(free.x[0]))
	next := min(max(free.x[0], 0), 1)*(feature.DeviceKnots-1) - float64(k)
	low, high := by.wT[k*by.out:(k+1)*by.out], by.wT[(k+1)*by.out:(k+2)*by.out]
	for j := range y.x {
		y.x[j] += (1-next)*float64(low[j]) + next*float64(high[j])
	}
	t.back = append(t.back, func() {
		for j, d := range y.d {
			free.d[0] += d * float64(high[j]-low[j]) * (feature.DeviceKnots - 1)
		}
	})
}

// finish normalises and rectifies a layer's sum.
func (t *tape) finish(o *op, y *cell) *cell {
	if o.normW != nil {
		y = t.norm(o, y)
	}
	if !o.ReLU {
		return y
	}
	out := newCell(len(y.x))
	for j, v := range y.x {
		out.x[j] = max(v, 0)
	}
	t.back = append(t.back, func() {
		for j, v := range y.x {
			if v > 0 {
				y.d[j] += out.d[j]
			}
		}
	})
	return out
}

// norm is layerNorm.
func (t *tape) norm(o *op, y *cell) *cell {
	n, out := float64(len(y.x)), newCell(len(y.x))
	var mean, variance float64
	for _, v := range y.x {
		mean += v / n
	}
	for _, v := range y.x {
		variance += (v - mean) * (v - mean) / n
	}
	inverse := 1 / math.Sqrt(variance+1e-5)
	for j, v := range y.x {
		out.x[j] = (v-mean)*inverse*float64(o.normW[j]) + float64(o.normB[j])
	}
	t.back = append(t.back, func() {
		var level, along float64
		for j, v := range y.x {
			d := out.d[j] * float64(o.normW[j])
			level += d / n
			along += d * (v - mean) * inverse / n
		}
		for j, v := range y.x {
			y.d[j] += (out.d[j]*float64(o.normW[j]) - level - (v-mean)*inverse*along) * inverse
		}
	})
	return out
}

// leaves are what the layers of a node read: its features, the messages of its groups by term, in order, and the free parts of
// its devices.
type leaves struct {
	x        *cell
	messages []*cell
	free     []*cell
}

// node runs the layers of a node, and returns the vector of the given one.
func (t *tape) node(p program, in leaves, last int) *cell {
	vectors := make([][]*cell, len(p))
	for i := range p[:last+1] {
		o := &p[i]
		rows := 0
		switch o.Of {
		case checkpoint.Node:
			rows = 1
		case checkpoint.Device:
			rows = len(in.free)
		}
		for r := range rows {
			y := newCell(o.Width)
			for j := range o.terms {
				x := &o.terms[j]
				switch from := p.source(x); {
				case from == 0 && o.Of == checkpoint.Device:
					t.addKnots(y, x, in.free[r])
				case from == 0:
					t.add(y, x, in.x)
				case from == checkpoint.Group:
					t.add(y, x, in.messages[0])
					in.messages = in.messages[1:]
				case from == checkpoint.Device && len(in.free) > 0:
					t.add(y, x, t.sum(vectors[x.from[0]]))
				case from == checkpoint.Node:
					t.add(y, x, vectors[x.from[0]][0])
				}
			}
			vectors[i] = append(vectors[i], t.finish(o, y))
		}
	}
	return vectors[last][0]
}

// sum returns the sum of vectors of the same length, at least one.
func (t *tape) sum(all []*cell) *cell {
	out := newCell(len(all[0].x))
	for _, c := range all {
		for j, v := range c.x {
			out.x[j] += v
		}
	}
	t.back = append(t.back, func() {
		for _, c := range all {
			for j, d := range out.d {
				c.d[j] += d
			}
		}
	})
	return out
}
