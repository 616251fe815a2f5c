package rollouts

import (
	"errors"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/run"
)

// Evolution holds the hyperparameters of evolution strategies. The learning rate is the part of a generation's mean noise, weighted by
// what it gained, that the weights move by.
type Evolution struct {
	Pairs     int     `json:"pairs"`     // pairs of networks in a generation: one has some noise on its weights, the other the same noise with the other sign
	Episodes  int     `json:"episodes"`  // episodes of a generation; every network plays all of them
	Noise     float64 `json:"noise"`     // standard deviation of the noise on a weight
	Waits     float64 `json:"waits"`     // what one percent more of waiting pods costs, against one percent more of the objective
	Averaging float64 `json:"averaging"` // share of the latest weights in the average that is evaluated, at each generation
	// Parameters begin the names of the parameters of which those weights are learned that read the set rule; all others stay as they are.
	Parameters []string `json:"parameters"`
}

// EvolutionDefaults returns the values that a run starts from.
func EvolutionDefaults() Evolution {
	return Evolution{Pairs: 16, Episodes: 12, Noise: 0.1, Waits: 1, Averaging: 0.1, Parameters: []string{"trust.", "emphasis."}}
}

// Name returns the method's name in a sentence.
func (Evolution) Name() string { return "evolution strategies" }

// Check returns an error if the network has none of the parameters.
func (c Evolution) Check(a checkpoint.Architecture) error {
	if len(c.learned(a)) == 0 {
		return fmt.Errorf("no parameter of the network begins with %q: set residual, or es.parameters", c.Parameters)
	}
	return nil
}

// Validate reports the first value out of range. batch has no meaning here.
func (c Evolution) Validate(int) error {
	if len(c.Parameters) == 0 {
		return errors.New("es.parameters names nothing to learn")
	}
	return run.CheckRanges([]run.Range{
		{Name: "pairs", Value: float64(c.Pairs), Low: 2, High: 10_000},
		{Name: "episodes of a generation", Value: float64(c.Episodes), Low: 1, High: 10_000},
		{Name: "noise", Value: c.Noise, Low: 1e-6, High: 1e3},
		{Name: "cost of waiting", Value: c.Waits, Low: 0, High: 1e3},
		{Name: "averaging of generations", Value: c.Averaging, Low: 1e-6, High: 1},
	})
}
