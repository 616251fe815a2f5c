package cem

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// firstSeed is the first seed of tuning's episodes. It is far from those of evaluation, which count
// from 1, and from those of training.
const firstSeed = 1 << 61

// Tuner tunes the weights of a linear policy on episodes of a simulator's configuration. An episode's
// loss is its cost relative to a baseline on the same episode, plus a penalty for more waiting
// pods.
type Tuner struct {
	Env        sim.Config
	Baseline   policy.Policy
	Episodes   int     // in a generation
	WaitWeight float64 // penalty for one percentage point more of waiting pods, against one percent of cost
	// From are the weights to start from, in the order of linear.Features; nil for zeros.
	From []float64
	// Features are the names of the features whose weights are tuned. The other weights stay as
	// they are. nil for all.
	Features []string

	Population  int // vectors of weights in a generation; a quarter of them is the elite
	Generations int
	Spread      float64 // standard deviation of every weight at the start; noise starts at a fifth of it
	Seed        uint64  // of the weights that are drawn

	env       *sim.Env
	baselines map[uint64]sim.Outcome // by seed
}

// Validate reports the first setting out of range.
func (t *Tuner) Validate() error {
	if t.From != nil && len(t.From) != len(linear.Features) {
		return fmt.Errorf("%d weights to start from, want %d", len(t.From), len(linear.Features))
	}
	for _, name := range t.Features {
		if !slices.Contains(linear.Features, name) {
			return fmt.Errorf("there is no feature %q; there are %s", name, strings.Join(linear.Features, ", "))
		}
	}
	if t.Episodes < 1 {
		return fmt.Errorf("%d episodes a generation: want at least 1", t.Episodes)
	}
	if !(t.WaitWeight >= 0) {
		return fmt.Errorf("weight %v of waiting pods: want 0 or more", t.WaitWeight)
	}
	if err := seeds.CheckTraining(t.Seed); err != nil {
		return err
	}
	return t.search().validate()
}

func (t *Tuner) search() cem {
	return cem{
		population: t.Population, elite: t.Population / 4, generations: t.Generations,
		start: t.start(), spread: t.Spread, noise: t.Spread / 5, seed: t.Seed,
	}
}

// tunes tells whether the weight of a feature is tuned. Without a list those about usage are only tuned where usage
// is played.
func (t *Tuner) tunes(feature string) bool {
	if t.Features == nil {
		return t.Env.Usage != nil || !slices.Contains(linear.UsageFeatures, feature)
	}
	return slices.Contains(t.Features, feature)
}

// start returns the first weights of the features that are tuned.
func (t *Tuner) start() (out []float64) {
	for i, name := range linear.Features {
		switch {
		case !t.tunes(name):
		case t.From == nil:
			out = append(out, 0)
		default:
			out = append(out, t.From[i])
		}
	}
	return out
}

// policy returns the policy with the given weights for the features that are tuned.
func (t *Tuner) policy(name string, weights []float64) (*linear.Policy, error) {
	all := make([]float64, len(linear.Features))
	copy(all, t.From)
	next := 0
	for i, feature := range linear.Features {
		if t.tunes(feature) {
			all[i] = weights[next]
			next++
		}
	}
	return linear.New(name, all)
}

// Tune returns the tuned policy under the given name. It calls told after each generation; told may
// be nil. When ctx ends early, Tune returns the policy so far with ctx's error.
func (t *Tuner) Tune(ctx context.Context, name string, told func(Generation)) (*linear.Policy, error) {
	err := t.Validate()
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	if t.env, err = sim.New(t.Env); err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	t.baselines = map[uint64]sim.Outcome{}
	weights, err := t.search().minimise(ctx, t.loss, told)
	if weights == nil {
		return nil, err
	}
	p, invalid := t.policy(name, weights)
	if invalid != nil {
		return nil, invalid
	}
	return p, err
}

// loss returns the mean loss over a generation's episodes.
func (t *Tuner) loss(generation int, weights []float64) (float64, error) {
	p, err := t.policy("candidate", weights)
	if err != nil {
		return 0, err
	}
	var sum float64
	for i := range t.Episodes {
		seed := firstSeed + uint64(generation*t.Episodes+i)
		base, err := t.baseline(seed)
		if err != nil {
			return 0, err
		}
		o, err := eval.Play(t.env, seed, p, nil)
		if err != nil {
			return 0, err
		}
		sum += t.relative(o, base)
	}
	return sum / float64(t.Episodes), nil
}

// baseline returns the baseline's outcome of a seed's episode.
func (t *Tuner) baseline(seed uint64) (sim.Outcome, error) {
	base, ok := t.baselines[seed]
	if ok {
		return base, nil
	}
	ties := rand.New(rand.NewPCG(seed, 1))
	base, err := eval.Play(t.env, seed, t.Baseline, ties)
	if err == nil {
		t.baselines[seed] = base
	}
	return base, err
}

// relative returns the loss of an outcome: the ratio of its cost to the baseline's, with the cost at the
// end plus the mean cost over time, and the penalty for more waiting pods.
func (t *Tuner) relative(o, base sim.Outcome) float64 {
	const least = 1e-4 // bounds the ratio in an episode in which the baseline has no cost
	cost := (o.Cost + o.MeanCost + least) / (base.Cost + base.MeanCost + least)
	return cost + t.WaitWeight*float64(o.Waited-base.Waited)/float64(max(o.Arrived, 1))
}
