package eval

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"gnnsched/scheduler/eval/optimum"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Contender is a policy under comparison.
type Contender struct {
	Name string
	// New returns the policy for one episode. It may be called while other episodes run.
	New func(policy.Setting) policy.Policy
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

// Compare runs every contender on every seed, as many seeds at a time as there are processors,
// and in a scenario that asks for it adds the optimum to the results. progress, which may be
// nil, is told after each episode how many are done, one call at a time. It ends early with the
// context's error.
func Compare(ctx context.Context, s Scenario, contenders []Contender, seeds []uint64, progress func(done, total int)) (*Comparison, error) {
	if len(contenders) == 0 || len(seeds) == 0 {
		return nil, errors.New("nothing to compare: no policy or no seed")
	}
	c := &Comparison{Scenario: s, Seeds: seeds}
	for _, x := range contenders {
		c.Results = append(c.Results, Result{Name: x.Name, Outcomes: make([]sim.Outcome, len(seeds))})
	}
	if s.Optimum {
		c.Results = append(c.Results, Result{Name: Optimum, Outcomes: make([]sim.Outcome, len(seeds))})
	}
	var told sync.Mutex
	done, total := 0, len(c.Results)*len(seeds)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range seeds {
		work.Go(func() error {
			return c.seed(ctx, contenders, i, func() {
				told.Lock()
				defer told.Unlock()
				if done++; progress != nil {
					progress(done, total)
				}
			})
		})
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return c, nil
}

// seed fills in the outcomes of one seed.
func (c *Comparison) seed(ctx context.Context, contenders []Contender, i int, played func()) error {
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return err
	}
	for k := range c.Results {
		if err := ctx.Err(); err != nil {
			return err
		}
		o := &c.Results[k].Outcomes[i]
		if k < len(contenders) {
			x := contenders[k]
			p := x.New(policy.Setting{Seed: c.Seeds[i], Typical: env.Typical()})
			if *o, err = play(ctx, env, c.Seeds[i], p, x.Ties(c.Seeds[i])); err != nil {
				return fmt.Errorf("%s: %w", x.Name, err)
			}
		} else if *o, err = optimum.Of(env, c.Seeds[i]); err != nil {
			return fmt.Errorf("the optimum: %w", err)
		}
		played()
	}
	return nil
}

// Optimum is what tables call the best that there is, in the scenarios that ask for it.
const Optimum = "optimum"
