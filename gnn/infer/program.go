package infer

import (
	"gnnsched/gnn/checkpoint"
)

// program is a list of layers with their weights, ready to run.
type program []op

// op is a layer with its weights.
type op struct {
	checkpoint.Layer
	terms        []term
	normW, normB []float32
}

// term is a term with its weights.
type term struct {
	checkpoint.Term
	dense       // in is 0 for a term without a matrix
	from  []int // places of the layers that it reads; none for features
	scale int   // place of the layer that scales it; -1 for none
}

// newProgram returns layers with the weights of a checkpoint that has them.
func newProgram(c *checkpoint.Checkpoint, layers []checkpoint.Layer) program {
	p, place := make(program, len(layers)), map[string]int{}
	for i, l := range layers {
		place[l.Name] = i
		p[i] = op{Layer: l, normW: c.Weights[l.Norm+".weight"].Data, normB: c.Weights[l.Norm+".bias"].Data}
		for _, t := range l.Terms {
			x := term{Term: t, scale: -1}
			if at, scaled := place[t.Scale]; scaled {
				x.scale = at
			}
			if t.Weight != "" {
				w := c.Weights[t.Weight+".weight"]
				x.dense = newDense(w.Data, c.Weights[t.Bias].Data, w.Shape[0], w.Shape[1]) // Data is nil if there is no bias
			}
			for _, name := range t.From {
				x.from = append(x.from, place[name])
			}
			p[i].terms = append(p[i].terms, x)
		}
	}
	return p
}

// find returns the place of a layer; -1 if the program has none of this name.
func (p program) find(name string) int {
	for i := range p {
		if p[i].Name == name {
			return i
		}
	}
	return -1
}

// source returns the kind of vertex whose vectors a term reads; 0 for the features of its own.
func (p program) source(t *term) checkpoint.Kind {
	if len(t.from) == 0 {
		return 0
	}
	return p[t.from[0]].Of
}

// of returns the terms of a layer that read vectors of a kind; its own features for 0.
func (p program) of(o *op, kind checkpoint.Kind) (terms []term) {
	for i := range o.terms {
		if p.source(&o.terms[i]) == kind {
			terms = append(terms, o.terms[i])
		}
	}
	return terms
}

// add adds the term of x to each of the rows of y.
func (t *term) add(y, x []float32, rows int) {
	if t.in > 0 {
		t.addRows(y, x, rows)
		return
	}
	for i, v := range x[:len(y)] {
		y[i] += v
	}
}

// finish normalises and rectifies the rows of a layer's sums, in place.
func (o *op) finish(y []float32, rows int) {
	for r := range rows {
		row := y[r*o.Width : (r+1)*o.Width]
		if o.normW != nil {
			layerNorm(row, row, o.normW, o.normB)
		}
		if o.ReLU {
			relu(row)
		}
	}
}
