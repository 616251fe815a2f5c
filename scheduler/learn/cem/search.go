package cem

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// firstSeed is the first seed of tuning's episodes. It is far from those of evaluation, which count
// from 1, and from those of training.
const firstSeed = 1 << 61

// Search describes how candidates are drawn and tried. An episode's loss is its cost relative to a baseline
// on the same episode, plus a penalty for more waiting pods.
type Search struct {
	Env        sim.Config
	Baseline   policy.Policy // stateless
	Episodes   int           // in a generation
	WaitWeight float64       // penalty for one percentage point more of waiting pods, against one percent of cost

	Population  int // vectors of weights in a generation; a quarter of them is the elite
	Generations int
	Spread      float64 // standard deviation of every weight at the start; noise starts at a fifth of it
	Seed        uint64  // of the weights that are drawn
}

// validate reports the first setting out of range, given the vector to start from.
func (s Search) validate(start []float64) error {
	if s.Episodes < 1 {
		return fmt.Errorf("%d episodes a generation: want at least 1", s.Episodes)
	}
	if !(s.WaitWeight >= 0) {
		return fmt.Errorf("weight %v of waiting pods: want 0 or more", s.WaitWeight)
	}
	if err := sim.CheckTrainingSeed(s.Seed); err != nil {
		return err
	}
	return s.from(start, nil).validate()
}

// from returns the search that starts from a vector.
func (s Search) from(start []float64, f func(context.Context, int, [][]float64) ([]float64, error)) Problem {
	return Problem{Start: start, Spread: s.Spread, Population: s.Population, Generations: s.Generations, Seed: s.Seed, Losses: f}
}

// trials plays candidates on episodes, as many at a time as there are processors.
type trials struct {
	Search
	randomTies bool       // candidates break ties at random, as kube-scheduler does
	envs       []*sim.Env // one for each worker
	free       chan *sim.Env
}

func newTrials(s Search, randomTies bool) (*trials, error) {
	t := &trials{Search: s, randomTies: randomTies, free: make(chan *sim.Env, runtime.GOMAXPROCS(0))}
	for range cap(t.free) {
		env, err := sim.New(s.Env)
		if err != nil {
			return nil, err
		}
		t.envs = append(t.envs, env)
		t.free <- env
	}
	return t, nil
}

// generation returns the mean loss of each policy over the episodes of a generation. Each policy is used by
// one goroutine at a time.
func (t *trials) generation(ctx context.Context, number int, policies []policy.Policy) ([]float64, error) {
	return t.on(ctx, eval.Seeds(firstSeed+uint64(number*t.Episodes), t.Episodes), policies)
}

// on returns the mean loss of each policy over the episodes of seeds.
func (t *trials) on(ctx context.Context, seeds []uint64, policies []policy.Policy) ([]float64, error) {
	var base []sim.Outcome
	outcomes := make([][]sim.Outcome, len(policies))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(len(t.envs))
	work.Go(func() (err error) {
		base, err = t.play(ctx, seeds, t.Baseline, true)
		return err
	})
	for i, p := range policies {
		work.Go(func() (err error) {
			outcomes[i], err = t.play(ctx, seeds, p, t.randomTies)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	out := make([]float64, len(policies))
	for i := range out {
		for k, o := range outcomes[i] {
			out[i] += o.Relative(base[k], t.WaitWeight) / float64(len(seeds))
		}
	}
	return out, nil
}

// play returns the outcomes of a policy on the episodes of seeds.
func (t *trials) play(ctx context.Context, seeds []uint64, p policy.Policy, randomTies bool) (out []sim.Outcome, err error) {
	env := <-t.free
	defer func() { t.free <- env }()
	for _, seed := range seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var ties *rand.Rand
		if randomTies {
			ties = rand.New(rand.NewPCG(seed, 1))
		}
		o, err := eval.Play(env, seed, p, ties)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}
