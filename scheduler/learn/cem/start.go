package cem

import (
	"fmt"
	"path/filepath"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/policy/linear"
)

// FromZero names the start at which every weight is 0.
const FromZero = "zero"

// StartWeights returns the weights that tuning starts from: those of a
// policy that the program carries, or of a linear policy's .json file. They are nil for FromZero.
func StartWeights(from string) ([]float64, error) {
	switch {
	case from == FromZero:
		return nil, nil
	case slices.Contains(linear.TunedNames(), from):
		return linear.Tuned(from).Weights(), nil
	case filepath.Ext(from) != ".json":
		return nil, fmt.Errorf("it is no .json file, and %w",
			choice.Unknown("linear policy", from, append([]string{FromZero}, linear.TunedNames()...)))
	}
	p, err := linear.Load(from)
	if err != nil {
		return nil, err
	}
	return p.Weights(), nil
}
