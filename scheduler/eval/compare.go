package eval

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/eval/optimum"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Contender is a policy under comparison.
type Contender struct {
	Name string
	// New returns the policy for one episode. A policy that draws at random uses seed.
	New func(seed uint64) policy.Policy
	// RandomTies breaks ties between equal scores at random, as kube-scheduler does;
	// otherwise the first of the equals is taken.
	RandomTies bool
}

// Ties is what chooses among equal scores in the episode of a seed; nil for the first.
func (c Contender) Ties(seed uint64) *rand.Rand {
	if !c.RandomTies {
		return nil
	}
	return rand.New(rand.NewPCG(seed, tieStream))
}

// Result is how one contender did.
type Result struct {
	Name     string
	Outcomes []sim.Outcome // by seed, in the order of Comparison.Seeds
}

// Comparison is several contenders on the same episodes of one scenario. The first is the
// baseline that the others are compared with.
type Comparison struct {
	Scenario Scenario
	Seeds    []uint64
	Results  []Result
	Verdicts []Verdict // of Judge
}

// Seeds are n seeds from first on.
func Seeds(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// tieStream keeps the ties apart from everything else that is drawn from a seed.
const tieStream = 0x7469_6573

// Compare runs every contender on every seed, and in a scenario that asks for it adds the
// optimum to the results. progress, which may be nil, is told before
// each episode how many are done. It ends early with the context's error.
func Compare(ctx context.Context, s Scenario, contenders []Contender, seeds []uint64, progress func(done, total int)) (*Comparison, error) {
	if len(contenders) == 0 || len(seeds) == 0 {
		return nil, errors.New("nothing to compare: no policy or no seed")
	}
	env, err := sim.New(s.Config)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	c := &Comparison{Scenario: s, Seeds: seeds, Results: make([]Result, len(contenders))}
	for i, seed := range seeds {
		for k, x := range contenders {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if progress != nil {
				progress(i*len(contenders)+k, len(seeds)*len(contenders))
			}
			o, err := Play(env, seed, interruptible{x.New(seed), ctx}, x.Ties(seed))
			if err != nil {
				return nil, fmt.Errorf("scenario %s: %s: %w", s.Name, x.Name, err)
			}
			c.Results[k].Name = x.Name
			c.Results[k].Outcomes = append(c.Results[k].Outcomes, o)
		}
	}
	if s.Optimum {
		r, err := best(ctx, env, seeds)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		c.Results = append(c.Results, r)
	}
	return c, nil
}

// Optimum is what tables call the best that there is, in the scenarios that ask for it.
const Optimum = "optimum"

func best(ctx context.Context, env *sim.Env, seeds []uint64) (Result, error) {
	r := Result{Name: Optimum}
	for _, seed := range seeds {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		o, err := optimum.Of(env, seed)
		if err != nil {
			return r, fmt.Errorf("the optimum: %w", err)
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	return r, nil
}

// interruptible is a policy that gives up when the context is over: an episode of a thousand
// nodes is too long to wait for.
type interruptible struct {
	policy.Policy
	ctx context.Context
}

// Score implements policy.Policy.
func (i interruptible) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := i.ctx.Err(); err != nil {
		return err
	}
	return i.Policy.Score(s, pod, candidates, scores)
}
