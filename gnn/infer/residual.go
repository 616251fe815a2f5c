package infer

import "gnnsched/gnn/feature"

// residual is a weighted sum of a candidate's features. It keeps the weights that are not 0.
type residual struct {
	own, part, kept []weight // of the features; of the numbers of a split row; of the kept numbers of its node
}

type weight struct {
	at int
	w  float64
}

func newResidual(d dense, split *feature.SplitLayout) (r residual) {
	r.own = weights(d)
	if split != nil {
		r.part, r.kept = weights(d.summed(split)), weights(d.rows(split.At, split.Len))
	}
	return r
}

// weights returns those of a map to one number that are not 0.
func weights(d dense) (out []weight) {
	for i, w := range d.wT {
		if w != 0 {
			out = append(out, weight{i, float64(w)})
		}
	}
	return out
}

// of returns the weighted sum of x, in float64: at a thousand nodes, sums of nearly equal nodes differ in the seventh digit.
func of(all []weight, x []float32) (sum float64) {
	for _, w := range all {
		sum += w.w * float64(x[w.at])
	}
	return sum
}
