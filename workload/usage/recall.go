package usage

import "math"

// Recall keeps what AtFor computed for one pod, so that it computes less the next time. It changes no result. The zero Recall
// is empty, and a copy is independent.
type Recall struct {
	walks [Dimensions]*stretch
}

// stretchSteps is the number of steps of a stretch, a power of two.
const stretchSteps = 16

// stretch holds the amounts of a walk from the step first on, a multiple of stretchSteps. It does not change, so copies of a
// Recall share it.
type stretch struct {
	first   uint64
	amounts [stretchSteps]float64
	end     float64 // position of the Brownian motion after the last step
}

// next returns the stretch of a walk that begins with a step. It draws the positions as brownian does, each once. at is the previous
// stretch, any other, or nil.
func (at *stretch) next(seed, first uint64, c Walk) *stretch {
	var p [stretchSteps + 1]float64
	halve := func(from, to uint64) {
		for size := to - from; size > 1; size /= 2 {
			for at := from; at < to; at += size {
				p[at+size/2] = middle(p[at], p[at+size], size, mix(seed, first+at+size/2))
			}
		}
	}
	if first == 0 {
		p[1] = normal(mix(seed, 1))
		for to := uint64(1); to < stretchSteps; to *= 2 {
			p[2*to] = p[to] + math.Sqrt(float64(to))*normal(mix(seed, 2*to))
			halve(to, 2*to)
		}
	} else {
		if at != nil && at.first+stretchSteps == first {
			p[0] = at.end
		} else {
			p[0] = brownian(seed, first)
		}
		p[stretchSteps] = brownian(seed, first+stretchSteps)
		halve(0, stretchSteps)
	}
	out := &stretch{first: first, end: p[stretchSteps]}
	for k := range out.amounts {
		out.amounts[k] = c.reflected(seed, p[k])
	}
	return out
}
