package rollouts

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
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
