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

// Score is what an evaluation gives; all parts are better when lower.
type Score struct {
	Cost        float64 // mean over the seeds of the objective at the end of the episode
	MeanCost    float64 // mean over the seeds of the objective over time (sim.Outcome)
	Unscheduled float64 // mean over the seeds of the pods left over
	LeftOver    float64 // the same as a fraction of the pods that arrived
}

// Total is what networks are chosen by: the objective, in the end and over time alike, and the
// fraction of pods left over, with a weight.
func (s Score) Total(weight float64) float64 { return (s.Cost+s.MeanCost)/2 + weight*s.LeftOver }

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
		s.MeanCost += o.MeanCost / float64(h.seeds)
		s.Unscheduled += float64(o.Unscheduled) / float64(h.seeds)
		s.LeftOver += float64(o.Unscheduled) / float64(max(o.Arrived, 1)*h.seeds)
	}
	return s, nil
}
