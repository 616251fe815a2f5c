package cem

import (
	"context"
	"fmt"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// Tuner tunes the weights of a linear policy on episodes of a simulator's configuration.
type Tuner struct {
	Search
	// From are the weights to start from, in the order of linear.Features; nil for zeros.
	From []float64
	// Features are the names of the features whose weights are tuned. The other weights stay as
	// they are. nil for all.
	Features []string
}

// Validate reports the first setting out of range.
func (t *Tuner) Validate() error {
	if t.From != nil && len(t.From) != len(linear.Features) {
		return fmt.Errorf("%d weights to start from, want %d", len(t.From), len(linear.Features))
	}
	for _, name := range t.Features {
		if !slices.Contains(linear.Features, name) {
			return choice.Unknown("feature", name, linear.Features)
		}
	}
	return t.validate(t.start())
}

// tunes tells whether the weight of a feature is tuned. Without a list those about usage are only tuned where usage
// is played, and energy is not.
func (t *Tuner) tunes(feature string) bool {
	if t.Features == nil {
		return feature != linear.Energy && (t.Env.Usage != nil || !slices.Contains(linear.UsageFeatures, feature))
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
	tried, err := newTrials(t.Search, false)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	weights, err := t.from(t.start(), func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
		var policies []policy.Policy
		for _, v := range vectors {
			p, err := t.policy("candidate", v)
			if err != nil {
				return nil, err
			}
			policies = append(policies, p)
		}
		return tried.generation(ctx, generation, policies)
	}).Minimise(ctx, told)
	if weights == nil {
		return nil, err
	}
	p, invalid := t.policy(name, weights)
	if invalid != nil {
		return nil, invalid
	}
	return p, err
}
