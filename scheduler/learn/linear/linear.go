package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// firstSeed is where the seeds of tuning start: far from those of evaluation, which count from
// 1, and from those of training.
const firstSeed = 1 << 61

// Linear tunes the weights of a linear policy on episodes of one configuration.
type Linear struct {
	Env      sim.Config
	Baseline policy.Policy // its outcome on the same episode is the unit of the loss
	Episodes int           // a generation
	// WaitWeight is what one percentage point more of pods that had to wait weighs against
	// one percent of objective.
	WaitWeight float64
	// From are the weights to start from, in the order of linear.Features; nil for 0.
	From []float64
	// Features are the names of those whose weights are tuned; the others stay. nil for all.
	Features []string
	CEM      CEM // its Start is set by Tune

	env       *sim.Env
	baselines map[uint64]sim.Outcome
}

// Validate reports the first setting out of range.
func (l *Linear) Validate() error {
	if l.From != nil && len(l.From) != len(linear.Features) {
		return fmt.Errorf("%d weights to start from, want %d", len(l.From), len(linear.Features))
	}
	for _, name := range l.Features {
		if !slices.Contains(linear.Features, name) {
			return fmt.Errorf("there is no feature %q; there are %s", name, strings.Join(linear.Features, ", "))
		}
	}
	if l.Episodes < 1 {
		return fmt.Errorf("%d episodes a generation: want at least 1", l.Episodes)
	}
	if !(l.WaitWeight >= 0) {
		return fmt.Errorf("weight %v of waiting pods: want 0 or more", l.WaitWeight)
	}
	c := l.CEM
	c.Start = l.start()
	return c.Validate()
}

// tuned tells whether the weight of a feature is to be found.
func (l *Linear) tuned(feature string) bool {
	return l.Features == nil || slices.Contains(l.Features, feature)
}

// start are the weights to start from of the features that are tuned.
func (l *Linear) start() (out []float64) {
	for i, name := range linear.Features {
		switch {
		case !l.tuned(name):
		case l.From == nil:
			out = append(out, 0)
		default:
			out = append(out, l.From[i])
		}
	}
	return out
}

// policy is the one with the given weights for the features that are tuned.
func (l *Linear) policy(name string, weights []float64) (*linear.Policy, error) {
	all := make([]float64, len(linear.Features))
	copy(all, l.From)
	next := 0
	for i, feature := range linear.Features {
		if l.tuned(feature) {
			all[i] = weights[next]
			next++
		}
	}
	return linear.New(name, all)
}

// Tune returns the tuned policy, and with ctx's error the one so far.
func (l *Linear) Tune(ctx context.Context, name string, told func(Generation)) (*linear.Policy, error) {
	err := l.Validate()
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	if l.env, err = sim.New(l.Env); err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	l.baselines = map[uint64]sim.Outcome{}
	method := l.CEM
	method.Start = l.start()
	weights, err := method.Minimise(ctx, l.loss, told)
	if weights == nil {
		return nil, err
	}
	p, invalid := l.policy(name, weights)
	if invalid != nil {
		return nil, invalid
	}
	return p, err
}

// loss is the mean over a generation's episodes of Relative.
func (l *Linear) loss(generation int, weights []float64) (float64, error) {
	p, err := l.policy("candidate", weights)
	if err != nil {
		return 0, err
	}
	var sum float64
	for i := range l.Episodes {
		seed := firstSeed + uint64(generation*l.Episodes+i)
		base, ok := l.baselines[seed]
		if !ok {
			ties := rand.New(rand.NewPCG(seed, 1))
			if base, err = eval.Play(l.env, seed, l.Baseline, ties); err != nil {
				return 0, err
			}
			l.baselines[seed] = base
		}
		o, err := eval.Play(l.env, seed, p, nil)
		if err != nil {
			return 0, err
		}
		sum += l.relative(o, base)
	}
	return sum / float64(l.Episodes), nil
}

// relative is the objective's cost over the baseline's, averaged over its end and its mean in
// time, and what waits more.
func (l *Linear) relative(o, base sim.Outcome) float64 {
	const least = 1e-4 // keeps an episode that the baseline solves to perfection from deciding all
	cost := (o.Cost + o.MeanCost + least) / (base.Cost + base.MeanCost + least)
	return cost + l.WaitWeight*float64(o.Waited-base.Waited)/float64(max(o.Arrived, 1))
}
