package cem

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// searchStream separates the search's random numbers from the others that a seed gives.
const searchStream = 0x63656d

// cem is a search by the cross-entropy method (Rubinstein 1999), with noise that fades (Szita and
// Lőrincz 2006). Each generation draws vectors from a normal distribution and fits the distribution
// to the best of them, the elite.
type cem struct {
	population  int // vectors in a generation
	elite       int
	generations int
	start       []float64 // mean of the first distribution
	spread      float64   // standard deviation of every component at the start
	noise       float64   // added to the standard deviations at first; falls linearly to 0
	seed        uint64
}

func (c cem) validate() error {
	switch {
	case len(c.start) == 0:
		return fmt.Errorf("nothing to tune: no weight to start from")
	case c.elite < 2 || c.population < c.elite:
		return fmt.Errorf("population %d with an elite of %d: the elite is at least 2, and no more than the population", c.population, c.elite)
	case c.generations < 1:
		return fmt.Errorf("%d generations: want at least 1", c.generations)
	case !(c.spread > 0) || !(c.noise >= 0):
		return fmt.Errorf("spread %v and noise %v: want over 0, and 0 or more", c.spread, c.noise)
	}
	return nil
}

// Generation is the result of one generation of a search. Less loss is better.
type Generation struct {
	Number int     // from 1
	Best   float64 // loss of the best vector
	Elite  float64 // mean loss of the elite
}

// losses returns the losses of the vectors of a generation, all on the same workloads, which the
// generation decides.
type losses func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error)

// minimise searches for the vector of least loss. It returns the mean of the last distribution, which
// depends less on luck than the best vector. After each generation it calls told, unless that is
// nil. With an error it returns the mean so far.
func (c cem) minimise(ctx context.Context, f losses, told func(Generation)) ([]float64, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("cross-entropy method: %w", err)
	}
	rng := rand.New(rand.NewPCG(c.seed, searchStream))
	mean, std := slices.Clone(c.start), slices.Repeat([]float64{c.spread}, len(c.start))
	for g := range c.generations {
		drawn := make([][]float64, c.population)
		for i := range drawn {
			drawn[i] = make([]float64, len(mean))
			for j := range mean {
				drawn[i][j] = mean[j] + std[j]*rng.NormFloat64()
			}
		}
		copy(drawn[0], mean) // the mean itself competes
		l, err := f(ctx, g, drawn)
		if err != nil {
			return mean, err
		}
		tried := make([]vector, c.population)
		for i := range tried {
			tried[i] = vector{drawn[i], l[i]}
		}
		slices.SortStableFunc(tried, func(a, b vector) int { return cmp.Compare(a.loss, b.loss) })
		elite := tried[:c.elite]
		c.fit(elite, mean, std, 1-float64(g+1)/float64(c.generations))
		if told != nil {
			told(Generation{g + 1, elite[0].loss, meanLoss(elite)})
		}
	}
	return mean, nil
}

type vector struct {
	weights []float64
	loss    float64
}

// fit sets mean and std to those of the elite, and adds noise to std. left is the fraction of the
// search that is left.
func (c cem) fit(elite []vector, mean, std []float64, left float64) {
	column := make([]float64, len(elite))
	for j := range mean {
		for i, v := range elite {
			column[i] = v.weights[j]
		}
		mean[j], std[j] = stat.PopMeanStdDev(column, nil)
		std[j] += c.noise * left
	}
}

func meanLoss(vs []vector) (sum float64) {
	for _, v := range vs {
		sum += v.loss / float64(len(vs))
	}
	return sum
}
