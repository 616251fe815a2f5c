package cem

import "context"

// Problem is a search for the vector of least loss, for what the tuners of this package do not tune.
type Problem struct {
	Start       []float64 // mean of the first vectors
	Spread      float64   // standard deviation of every component at the start; noise starts at a fifth of it
	Population  int       // vectors in a generation; a quarter of them is the elite
	Generations int
	Seed        uint64 // of the vectors that are drawn
	// Losses returns the losses of a generation's vectors, all on the same workloads, which the generation decides.
	Losses func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error)
}

// Minimise returns the mean of the last generation's elite. After each generation it calls told, unless that is nil. With an error it
// returns the mean so far.
func (p Problem) Minimise(ctx context.Context, told func(Generation)) ([]float64, error) {
	c := cem{population: p.Population, elite: p.Population / 4, generations: p.Generations, start: p.Start, spread: p.Spread, noise: p.Spread / 5, seed: p.Seed}
	return c.minimise(ctx, p.Losses, told)
}
