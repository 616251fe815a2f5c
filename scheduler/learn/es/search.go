package es

import (
	"maps"
	"math"
	"math/rand/v2"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/sim"
)

// learned returns the names of the parameters that are learned, in the order of a file.
func (c Config) learned(a checkpoint.Architecture) (names []string) {
	for _, p := range a.Params() {
		for _, prefix := range c.Parameters {
			if strings.HasPrefix(p.Name, prefix) {
				names = append(names, p.Name)
				break
			}
		}
	}
	return names
}

// search holds the weights that are learned, one behind the other.
type search struct {
	Mean []float64 // around which a generation tries
	Slow []float64 // average of Mean over the generations
}

// newSearch starts from the weights of a network.
func newSearch(c *checkpoint.Checkpoint, names []string) (s search) {
	for _, name := range names {
		for _, v := range c.Weights[name].Data {
			s.Mean, s.Slow = append(s.Mean, float64(v)), append(s.Slow, float64(v))
		}
	}
	return s
}

// with returns the network with other weights for the parameters that are learned.
func with(c *checkpoint.Checkpoint, names []string, weights []float64) *checkpoint.Checkpoint {
	out := *c
	out.Weights = maps.Clone(c.Weights)
	for _, name := range names {
		w := c.Weights[name]
		w.Data = make([]float32, len(w.Data))
		for i := range w.Data {
			w.Data[i] = float32(weights[i])
		}
		weights, out.Weights[name] = weights[len(w.Data):], w
	}
	return &out
}

// tries draws noise for pairs of weights, and returns it and the weights: each pair's one behind the other.
func (s *search) tries(rng *rand.Rand, c Config) (noise, tries [][]float64) {
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

// loss returns what an outcome costs relative to another one of the same episode: the objective at the end plus that over time, and
// the pods that waited or were left over.
func loss(o, than sim.Outcome, waits float64) float64 {
	const least = 1e-4 // bounds the ratio in an episode that the other one ends without cost
	late := func(o sim.Outcome) float64 { return float64(o.Waited+o.Unscheduled) / float64(max(o.Arrived, 1)) }
	return (o.Cost+o.MeanCost+least)/(than.Cost+than.MeanCost+least) + waits*(late(o)-late(than))
}
