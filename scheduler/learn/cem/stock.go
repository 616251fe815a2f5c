package cem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/sim"
)

// choiceSeed is the first seed of the episodes that choose among the strategies. Neither a search nor
// an evaluation plays them.
const choiceSeed = firstSeed + 1<<40

// StockTuner tunes the score plugins of kube-scheduler: a search for each strategy of NodeResourcesFit, after
// which further episodes choose the strategy.
type StockTuner struct {
	Search                      // Generations are those of each strategy
	Strategies []stock.Strategy // to search; at least one
	// FreePreferences lets the search lower the weights of PodTopologySpread and TaintToleration relative to
	// the plugins that score requests, or leave out the default topology spread. Otherwise they are at
	// least as strong as by default.
	FreePreferences bool
}

// Tried is the result of the search for one strategy.
type Tried struct {
	Profile     stock.Profile
	Generations int     // completed
	Elite       float64 // mean loss of the last generation's elite; the default profile's loss is 1
	Choice      float64 // loss on the episodes that choose among strategies; NaN if they were not played
}

// Validate reports the first setting out of range.
func (t *StockTuner) Validate() error {
	if len(t.Strategies) == 0 {
		return errors.New("no strategy to search")
	}
	for i, s := range t.Strategies {
		if !slices.Contains(stock.Strategies, s) || slices.Contains(t.Strategies[:i], s) {
			return fmt.Errorf("strategy %q: want each of %v at most once", s, stock.Strategies)
		}
	}
	return t.validate(make([]float64, stockSpace{strategy: t.Strategies[0]}.size()))
}

// Tune returns what it found for each strategy, the best one first. It calls told after each generation. When
// ctx ends early, Tune returns the strategies that have a generation, by their last one, with ctx's error.
func (t *StockTuner) Tune(ctx context.Context, told func(stock.Strategy, Generation)) ([]Tried, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	tried, err := newTrials(t.Search, true)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	space, err := t.space(tried.envs[0])
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	var found []Tried
	for _, s := range t.Strategies {
		space.strategy = s
		var x Tried
		if x, err = t.one(ctx, tried, space, func(g Generation) { told(s, g) }); x.Generations > 0 {
			found = append(found, x)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = choose(ctx, tried, found)
	}
	slices.SortStableFunc(found, func(a, b Tried) int {
		if err != nil {
			return cmp.Compare(a.Elite, b.Elite)
		}
		return cmp.Compare(a.Choice, b.Choice)
	})
	return found, err
}

// one searches with one strategy.
func (t *StockTuner) one(ctx context.Context, tried *trials, space stockSpace, told func(Generation)) (Tried, error) {
	x := Tried{Choice: math.NaN()}
	vector, err := t.from(make([]float64, space.size()), func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
		policies, err := stockPolicies(vectors, space.profile)
		if err != nil {
			return nil, err
		}
		return tried.generation(ctx, generation, policies)
	}).Minimise(ctx, func(g Generation) {
		x.Generations, x.Elite = g.Number, g.Elite
		told(g)
	})
	if x.Generations > 0 {
		x.Profile = space.profile(vector)
	}
	return x, err
}

// choose sets Choice, on twice as many episodes as a generation has.
func choose(ctx context.Context, tried *trials, found []Tried) error {
	policies, err := stockPolicies(found, func(x Tried) stock.Profile { return x.Profile })
	if err != nil {
		return err
	}
	losses, err := tried.on(ctx, eval.Seeds(choiceSeed, 2*tried.Episodes), policies)
	for i, l := range losses {
		found[i].Choice = l
	}
	return err
}

// stockPolicies returns the policies of the profiles of xs.
func stockPolicies[X any](xs []X, profile func(X) stock.Profile) (out []policy.Policy, err error) {
	for _, x := range xs {
		p, err := stock.New("candidate", profile(x))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// space returns the parameters that make a difference in the episodes of the first generation, without a
// strategy.
func (t *StockTuner) space(env *sim.Env) (stockSpace, error) {
	mode := t.Env.PreferenceMode()
	s := stockSpace{spreads: mode == preference.First, declared: mode == preference.Declared, free: t.FreePreferences}
	for _, seed := range eval.Seeds(firstSeed, t.Episodes) {
		if err := env.Reset(seed); err != nil {
			return s, err
		}
		for _, n := range env.Snapshot().Nodes {
			s.gpus = s.gpus || n.Allocatable.GPU > 0
			s.taints = s.taints || mode != preference.Off && n.Avoids(nil) > 0
		}
	}
	return s, nil
}
