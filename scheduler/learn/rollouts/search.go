package rollouts

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
)

// place is where a weight that is learned stands in a network's file.
type place struct {
	name string // of the parameter
	at   int    // in its data
}

// learned returns the weights that are learned: those of the named parameters that multiply a feature of the set rule. The
// emphasis of a feature that is not in the rule changes nothing, and is left alone.
func (c Evolution) learned(a checkpoint.Architecture) (all []place) {
	features := a.Inputs()
	for _, p := range a.Params() {
		if !slices.ContainsFunc(c.Parameters, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) }) {
			continue
		}
		width := 1
		if len(p.Shape) == 2 {
			width = p.Shape[1]
		}
		for i := range p.Shape[0] * width {
			read, row := i%width, i/width
			if p.Reads == 0 || !ofRule(features[p.Reads][read]) || strings.HasPrefix(p.Name, "emphasis.") &&
				!ofRule(features[checkpoint.Candidate][row]) {
				continue
			}
			all = append(all, place{p.Name, i})
		}
	}
	return all
}

// ofRule reports whether a feature is one of the set rule.
func ofRule(f feature.Feature) bool { return strings.HasPrefix(f.Name, "rule_") }

// search holds the weights that are learned, one behind the other.
type search struct {
	Mean []float64 // around which a generation tries
	Slow []float64 // average of Mean over the generations
}

// newSearch starts from the weights of a network.
func newSearch(c *checkpoint.Checkpoint, learned []place) (s search) {
	for _, p := range learned {
		v := float64(c.Weights[p.name].Data[p.at])
		s.Mean, s.Slow = append(s.Mean, v), append(s.Slow, v)
	}
	return s
}

// with returns the network with other values of the weights that are learned.
func with(c *checkpoint.Checkpoint, learned []place, weights []float64) *checkpoint.Checkpoint {
	out := *c
	out.Weights = maps.Clone(c.Weights)
	last := ""
	for i, p := range learned {
		w := out.Weights[p.name]
		if p.name != last {
			w.Data = slices.Clone(w.Data)
			out.Weights[p.name], last = w, p.name
		}
		w.Data[p.at] = float32(weights[i])
	}
	return &out
}

// tries draws noise for pairs of weights, and returns it and the weights: each pair's one behind the other.
func (s *search) tries(rng *rand.Rand, c Evolution) (noise, tries [][]float64) {
	for range c.Pairs {
		n, plus, minus := make([]float64, len(s.Mean)), make([]float64, len(s.Mean)), make([]float64, len(s.Mean))
		for i, mean := range s.Mean {
			n[i] = c.Noise * rng.NormFloat64()
			plus[i], minus[i] = mean+n[i], mean-n[i]
		}
		noise, tries = append(noise, n), append(tries, plus, minus)
	}
	return noise, tries
}

// move takes the step of a generation, whose tries had these losses. A pair counts by the difference of its losses, in units of their
// spread over the pairs.
func (s *search) move(noise [][]float64, losses []float64, rate, averaging float64) {
	var square float64
	for k := range noise {
		d := losses[2*k] - losses[2*k+1]
		square += d * d / float64(len(noise))
	}
	if square == 0 {
		return
	}
	unit := rate / (math.Sqrt(square) * float64(len(noise)))
	for k, n := range noise {
		d := losses[2*k] - losses[2*k+1]
		for i, x := range n {
			s.Mean[i] -= unit * d * x
		}
	}
	for i, x := range s.Mean {
		s.Slow[i] += averaging * (x - s.Slow[i])
	}
}

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

// ownUnit is the scale of scores that the network has from the start: 1.
var ownUnit = scale{Worths: scaleWorths, Count: scaleWorths}

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
