package rollouts

import (
	"math"
	"math/rand/v2"

	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
)

// sample is a decision to learn from.
type sample struct {
	State *graph.Graph
	Tried []int32   // candidates
	Worth []float64 // of each: the teacher's score, or minus what the rollouts cost; higher is better
	// Taught holds the teacher's scores of all candidates, to which rollouts are corrections; nil in imitation
	// and without a teacher.
	Taught []float64
}

// centred returns values minus their mean.
func centred(values []float64) []float64 {
	mean := each.Sum(values, func(v float64) float64 { return v / float64(len(values)) })
	return each.Map(values, func(v float64) float64 { return v - mean })
}

// even divides the worths, and the teacher's scores, each by their spread in this decision, so that all decisions count alike.
func (s *sample) even() {
	for _, values := range [][]float64{s.Worth, s.Taught} {
		square := each.Sum(centred(values), func(w float64) float64 { return w * w / float64(len(values)) })
		spread := math.Sqrt(square)
		if spread < leastSpread { // rounding errors tell nothing
			spread = 1
		}
		for i := range values {
			values[i] /= spread
		}
	}
}

// leastSpread is the smallest spread of worths that is no rounding error.
const leastSpread = 1e-7

// memory holds the latest samples. The zero value with a limit is ready.
type memory struct {
	Samples []sample
	Next    int // the oldest, once the memory is full
	limit   int
}

func (m *memory) add(s sample) {
	if len(m.Samples) < m.limit {
		m.Samples = append(m.Samples, s)
		return
	}
	m.Samples[m.Next] = s
	m.Next = (m.Next + 1) % m.limit
}

// draw returns n samples, drawn uniformly with replacement.
func (m *memory) draw(rng *rand.Rand, n int) []*sample {
	out := make([]*sample, n)
	for i := range out {
		out[i] = &m.Samples[rng.IntN(len(m.Samples))]
	}
	return out
}

// clear forgets all samples.
func (m *memory) clear() { m.Samples, m.Next = nil, 0 }

// scale brings worths to the size of the network's scores. Its first samples decide it; then it stays as
// it is. If the network's scores tell something about the worths already, as they do after imitation, it is the
// slope of the regression of the worths on the scores: rollouts then correct the scores and do not
// stretch them. Otherwise it is the root of the worths' mean square.
type scale struct {
	Cross, Scores, Worths float64 // sums of products and of squares
	Count                 int
}

// scaleWorths is how many worths decide a scale.
const scaleWorths = 8192

// observe takes the centred worths of a sample, and the network's centred scores of the same candidates; nil
// if it has learned nothing yet.
func (s *scale) observe(worths, scores []float64) {
	for i, w := range worths {
		if s.Count++; s.Count > scaleWorths {
			return
		}
		s.Worths += w * w
		if scores != nil {
			s.Cross, s.Scores = s.Cross+w*scores[i], s.Scores+scores[i]*scores[i]
		}
	}
}

// known tells whether all samples that decide the scale were observed.
func (s *scale) known() bool { return s.Count >= scaleWorths }

// size returns what worths are divided by.
func (s *scale) size() float64 {
	rms := s.rms()
	if slope := s.Cross / s.Scores; s.Scores > 0 && slope > rms/100 {
		return slope
	}
	return rms
}

// rms returns the root of the worths' mean square.
func (s *scale) rms() float64 {
	return max(math.Sqrt(s.Worths/float64(min(max(s.Count, 1), scaleWorths))), 1e-12)
}
