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

// Problem is a search for the vector of least loss by the cross-entropy method (Rubinstein 1999), with noise that fades (Szita and
// Lőrincz 2006). Each generation draws vectors from a normal distribution and fits the distribution
// to the best quarter of them, the elite.
type Problem struct {
	Start       []float64 // mean of the first distribution
	Spread      float64   // standard deviation of every component at the start
	Population  int       // vectors in a generation
	Generations int
	Seed        uint64 // of the vectors that are drawn
	// Losses returns the losses of a generation's vectors, all on the same workloads, which the generation decides.
	Losses func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error)
}

// elite returns the number of vectors that the distribution is fitted to.
func (p Problem) elite() int { return p.Population / 4 }

func (p Problem) validate() error {
	switch {
	case len(p.Start) == 0:
		return fmt.Errorf("nothing to tune: no weight to start from")
	case p.elite() < 2:
		return fmt.Errorf("population %d with an elite of %d: the elite is a quarter, and at least 2", p.Population, p.elite())
	case p.Generations < 1:
		return fmt.Errorf("%d generations: want at least 1", p.Generations)
	case !(p.Spread > 0):
		return fmt.Errorf("spread %v: want over 0", p.Spread)
	}
	return nil
}

// Generation is the result of one generation of a search. Less loss is better.
type Generation struct {
	Number int     // from 1
	Best   float64 // loss of the best vector
	Elite  float64 // mean loss of the elite
}

// Minimise returns the mean of the last distribution, which
// depends less on luck than the best vector. After each generation it calls told, unless that is
// nil. With an error it returns the mean so far.
func (p Problem) Minimise(ctx context.Context, told func(Generation)) ([]float64, error) {
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("cross-entropy method: %w", err)
	}
	rng := rand.New(rand.NewPCG(p.Seed, searchStream))
	mean, std := slices.Clone(p.Start), slices.Repeat([]float64{p.Spread}, len(p.Start))
	for g := range p.Generations {
		drawn := make([][]float64, p.Population)
		for i := range drawn {
			drawn[i] = make([]float64, len(mean))
			for j := range mean {
				drawn[i][j] = mean[j] + std[j]*rng.NormFloat64()
			}
		}
		copy(drawn[0], mean) // the mean itself competes
		l, err := p.Losses(ctx, g, drawn)
		if err != nil {
			return mean, err
		}
		tried := make([]vector, p.Population)
		for i := range tried {
			tried[i] = vector{drawn[i], l[i]}
		}
		slices.SortStableFunc(tried, func(a, b vector) int { return cmp.Compare(a.loss, b.loss) })
		elite := tried[:p.elite()]
		p.fit(elite, mean, std, 1-float64(g+1)/float64(p.Generations))
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

// fit sets mean and std to those of the elite, and adds noise to std: a fifth of Spread at first. left is the fraction of the
// search that is left.
func (p Problem) fit(elite []vector, mean, std []float64, left float64) {
	column := make([]float64, len(elite))
	for j := range mean {
		for i, v := range elite {
			column[i] = v.weights[j]
		}
		mean[j], std[j] = stat.PopMeanStdDev(column, nil)
		std[j] += p.Spread / 5 * left
	}
}

func meanLoss(vs []vector) (sum float64) {
	for _, v := range vs {
		sum += v.loss / float64(len(vs))
	}
	return sum
}
