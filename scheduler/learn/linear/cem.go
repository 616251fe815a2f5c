package linear

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// CEM is the cross-entropy method (Rubinstein 1999; as in Szita and Lőrincz 2006, with noise
// that fades): draw vectors from a normal distribution, keep the best, fit the distribution
// to them, repeat.
type CEM struct {
	Population  int // vectors a generation
	Elite       int // of these that the next generation is fitted to
	Generations int //
	Start       []float64
	Spread      float64 // standard deviation of every weight at the start
	Noise       float64 // added to the standard deviation at the start; fades to nothing at the end
	Seed        uint64
}

// NewCEM returns the method for a population of vectors whose weights are spread so far at the
// start. A quarter of the population is the elite, and the noise starts at a fifth of the spread.
func NewCEM(population, generations int, spread float64, seed uint64) CEM {
	return CEM{Population: population, Elite: population / 4, Generations: generations, Spread: spread, Noise: spread / 5, Seed: seed}
}

// Validate reports the first setting out of range.
func (c CEM) Validate() error {
	switch {
	case len(c.Start) == 0:
		return fmt.Errorf("nothing to tune: no weight to start from")
	case c.Elite < 2 || c.Population < c.Elite:
		return fmt.Errorf("elite %d of %d: want at least 2, and no more than there are", c.Elite, c.Population)
	case c.Generations < 1:
		return fmt.Errorf("%d generations: want at least 1", c.Generations)
	case !(c.Spread > 0) || !(c.Noise >= 0):
		return fmt.Errorf("spread %v and noise %v: want over 0, and 0 or more", c.Spread, c.Noise)
	}
	return nil
}

// Generation is how one generation went.
type Generation struct {
	Number int // from 1
	Best   float64
	Elite  float64   // mean loss of the elite
	Mean   []float64 // of the distribution fitted to it
}

// Minimise looks for the weights of least loss. Loss is given the generation, so that it can
// judge the vectors of one generation on the same workloads and those of the next on others.
// It returns the mean of the last distribution, which is less a matter of luck than the best
// vector.
func (c CEM) Minimise(ctx context.Context, loss func(generation int, weights []float64) (float64, error), told func(Generation)) ([]float64, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cross-entropy method: %w", err)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x63656d))
	mean, std := slices.Clone(c.Start), slices.Repeat([]float64{c.Spread}, len(c.Start))
	for g := range c.Generations {
		tried := make([]vector, c.Population)
		for i := range tried {
			w := make([]float64, len(mean))
			for j := range w {
				w[j] = mean[j] + std[j]*rng.NormFloat64()
			}
			if i == 0 {
				copy(w, mean) // the mean itself competes
			}
			if err := ctx.Err(); err != nil {
				return mean, err
			}
			l, err := loss(g, w)
			if err != nil {
				return mean, err
			}
			tried[i] = vector{w, l}
		}
		slices.SortStableFunc(tried, func(a, b vector) int { return cmp.Compare(a.loss, b.loss) })
		elite := tried[:c.Elite]
		c.fit(elite, mean, std, 1-float64(g+1)/float64(c.Generations))
		if told != nil {
			told(Generation{g + 1, elite[0].loss, meanLoss(elite), slices.Clone(mean)})
		}
	}
	return mean, nil
}

type vector struct {
	weights []float64
	loss    float64
}

// fit sets mean and std to those of the elite, with noise added.
func (c CEM) fit(elite []vector, mean, std []float64, left float64) {
	column := make([]float64, len(elite))
	for j := range mean {
		for i, v := range elite {
			column[i] = v.weights[j]
		}
		mean[j], std[j] = stat.PopMeanStdDev(column, nil)
		std[j] += c.Noise * left
	}
}

func meanLoss(vs []vector) (sum float64) {
	for _, v := range vs {
		sum += v.loss / float64(len(vs))
	}
	return sum
}
