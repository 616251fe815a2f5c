package plugin

import "math"

// exploration is the share of the decisions that are left to chance, which falls by a factor
// a decision.
type exploration struct{ now, decay, final float64 }

// next returns the share for the next decision.
func (e *exploration) next() float64 {
	now := e.now
	e.now = max(e.now*e.decay, e.final)
	return now
}

// preferAnother makes candidate i the best, if only by a hair: the others keep their scores.
func preferAnother(raw []float32, i int) {
	best := raw[0]
	for _, v := range raw {
		best = max(best, v)
	}
	raw[i] = math.Nextafter32(best, math.MaxFloat32)
}
