package learn

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// heldOutSeed is where the held-out episodes' seeds start, far from those of training.
const heldOutSeed = 1 << 62

// HeldOut evaluates policies on episodes that training never sees, the same for each.
type HeldOut struct {
	env   *sim.Env
	seeds int
}

// Score is what an evaluation gives; both parts are better when lower.
type Score struct {
	Cost        float64 // mean over the seeds of the objective at the end of the episode
	Unscheduled float64 // mean over the seeds of the pods left over
}

// unscheduledCost is what a pod left over weighs against the objective when networks are
// chosen among.
const unscheduledCost = 0.01

func (s Score) less(o Score) bool {
	return s.Cost+unscheduledCost*s.Unscheduled < o.Cost+unscheduledCost*o.Unscheduled
}

// NewHeldOut returns an evaluation over so many seeds of the configuration.
func NewHeldOut(c sim.Config, seeds int) (*HeldOut, error) {
	env, err := sim.New(c)
	if err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	return &HeldOut{env: env, seeds: seeds}, nil
}

// Evaluate runs p greedily on every seed. Heuristics that give integers tie often;
// randomTies draws among equal bests, as kube-scheduler does.
func (h *HeldOut) Evaluate(p policy.Policy, randomTies bool) (Score, error) {
	var s Score
	for i := range uint64(h.seeds) {
		var ties *rand.Rand
		if randomTies {
			ties = rand.New(rand.NewPCG(heldOutSeed+i, 0x74696573))
		}
		o, err := eval.Play(h.env, heldOutSeed+i, p, ties)
		if err != nil {
			return s, err
		}
		s.Cost += o.Cost / float64(h.seeds)
		s.Unscheduled += float64(o.Unscheduled) / float64(h.seeds)
	}
	return s, nil
}
