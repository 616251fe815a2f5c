package infer

import "gnnsched/gnn/feature"

// residual is the weighted sum of a candidate's features in one decision. It keeps the weights that are not 0.
type residual struct {
	own, part, kept []weight // of the features; of the numbers of a split row; of the kept numbers of its node
	all             []float64
}

type weight struct {
	at int
	w  float64
}

// emphasise sets the weights to those of the rule times 1 + the emphasis of each feature.
func (r *residual) emphasise(rule *term, emphasis []float32, split *feature.SplitLayout) {
	r.own, r.part, r.kept = r.own[:0], r.part[:0], r.kept[:0]
	r.all = grow(r.all, rule.in)
	for i, w := range rule.wT {
		r.all[i] = float64(w) * (1 + float64(emphasis[i]))
		r.own = nonzero(r.own, i, r.all[i])
	}
	if split == nil {
		return
	}
	for i, features := range split.To {
		var sum float64
		for _, f := range features {
			sum += r.all[f]
		}
		r.part = nonzero(r.part, i, sum)
	}
	for i, w := range r.all[split.At : split.At+split.Len] {
		r.kept = nonzero(r.kept, i, w)
	}
}

// nonzero returns the weights with another one, unless that is 0.
func nonzero(all []weight, at int, w float64) []weight {
	if w == 0 {
		return all
	}
	return append(all, weight{at, w})
}

// of returns the weighted sum of x, in float64: at a thousand nodes, sums of nearly equal nodes differ in the seventh digit.
func of(all []weight, x []float32) (sum float64) {
	for _, w := range all {
		sum += w.w * float64(x[w.at])
	}
	return sum
}
