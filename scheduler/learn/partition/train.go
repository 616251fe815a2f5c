// Package partition learns the cost of the states of a GPU with MIG, for the policy mig:value.
//
// The cost of a cluster is a sum over its GPUs, and a placement changes one of them. The cost of a GPU is linear in the features of its
// state (package policy/partition) and in the workload's mix. The cross-entropy method searches for the weights with which the policy
// allocates most, over loads around the full cluster. It begins with FGD.
//
// Workloads are drawn from a family: the shares of the profiles are uniform on the simplex.
package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/migrun"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/partition"
)

// Config describes a training.
type Config struct {
	Machines    migrun.Machines
	Loads       []float64 // at which an episode's allocation counts
	Generations int
	Population  int // vectors of weights in a generation
	Episodes    int // of each vector in a generation
	Seed        uint64
}

// DefaultConfig returns the configuration of the shipped values.
func DefaultConfig() Config {
	return Config{
		Machines: migrun.Machines{Models: migrun.Models[:1], Each: 8, GPUs: 8}, Loads: []float64{0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3},
		Generations: 30, Population: 32, Episodes: 24, Seed: 1,
	}
}

const mixStream = 0x6d6978

// Train learns values. The same configuration gives the same values. After each generation it calls told, unless that is nil. A loss is
// the mean share of the compute slices that were requested, exist, and are idle.
func Train(ctx context.Context, c Config, told func(cem.Generation)) (*partition.Values, []float64, error) {
	if err := seeds.CheckTraining(c.Seed); err != nil {
		return nil, nil, err
	}
	start := make([]float64, len(mig.Features))
	start[0] = 1
	p := cem.Problem{Start: start, Spread: 0.5, Population: c.Population, Generations: c.Generations, Seed: c.Seed, Losses: c.losses}
	weights, err := p.Minimise(ctx, told)
	if err != nil {
		return nil, nil, fmt.Errorf("learn the cost of MIG states: %w", err)
	}
	return partition.Weighted(weights), weights, nil
}

// losses plays the episodes of a generation with each vector, as many at a time as there are processors.
func (c Config) losses(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
	out := make([]float64, len(vectors))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, w := range vectors {
		work.Go(func() error {
			v := partition.Weighted(w)
			for e := range c.Episodes {
				loss, err := c.loss(ctx, v, seeds.TrainingEpisode(c.Seed, uint64(generation*c.Episodes+e+1)))
				if err != nil {
					return err
				}
				out[i] += loss / float64(c.Episodes)
			}
			return nil
		})
	}
	return out, work.Wait()
}

// loss plays an episode.
func (c Config) loss(ctx context.Context, v *partition.Values, seed uint64) (sum float64, err error) {
	x := eval.Contender{Name: "mig:value", New: func(s policy.Setting) policy.Policy { return v.Policy(partition.MixOf(s.Typical)) }}
	all, err := c.Machines.Fill(ctx, family(seed), x, c.Loads, seed)
	for _, f := range all {
		sum += (min(f.Load, 1) - min(f.Allocation, 1)) / float64(len(all))
	}
	return sum, err
}

// family draws a mix whose shares are uniform on the simplex.
func family(seed uint64) migrun.Mix {
	rng := rand.New(rand.NewPCG(seed, mixStream))
	m := migrun.Mix{Name: fmt.Sprint("drawn-", seed)}
	for _, p := range mig.Profiles() {
		m.Weights[p] = rng.ExpFloat64()
	}
	return m
}
