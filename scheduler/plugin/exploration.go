package plugin

import "math"

// exploration is the probability of a random decision. It falls by a factor with each decision.
type exploration struct{ now, decay, final float64 }

// next returns the probability for the next decision.
func (e *exploration) next() float64 {
	now := e.now
	e.now = max(e.now*e.decay, e.final)
	return now
}

// preferAnother raises the score of candidate i just above the best one; the others keep theirs.
func preferAnother(raw []float32, i int) {
	best := raw[0]
	for _, v := range raw {
		best = max(best, v)
	}
	raw[i] = math.Nextafter32(best, math.MaxFloat32)
}
