package run

import (
	"fmt"

	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// heldOutSeed is the seed of the first held-out episode, far from those of training.
const heldOutSeed = 1 << 62

// HeldOut evaluates policies on episodes that training never sees, the same for each policy.
type HeldOut struct {
	env      *sim.Env
	episodes int
	first    uint64 // number of the first episode
}

// Score is the result of an evaluation: means over the episodes. Less is better in all of them.
type Score struct {
	Cost        float64 // the objective at the end of the episode
	MeanCost    float64 // the objective over time (sim.Outcome)
	Unscheduled float64 // the pods left over
	leftOver    float64 // pods left over / pods that arrived
}

// Total returns the number by which networks are chosen: the mean of the objective at the end and
// over time, plus the fraction of pods left over times a weight.
func (s Score) Total(weight float64) float64 { return (s.Cost+s.MeanCost)/2 + weight*s.leftOver }

// Figures returns the score for a manifest, under names that begin with a prefix.
func (s Score) Figures(prefix string) map[string]float64 {
	return map[string]float64{prefix + "Cost": s.Cost, prefix + "MeanCost": s.MeanCost, prefix + "Unscheduled": s.Unscheduled}
}

// String returns the score in words.
func (s Score) String() string {
	return fmt.Sprintf("cost %.5f, over time %.5f, %.1f unscheduled", s.Cost, s.MeanCost, s.Unscheduled)
}

// NewHeldOut returns an evaluation over a number of episodes of a configuration.
func NewHeldOut(c sim.Config, episodes int) (*HeldOut, error) {
	env, err := sim.New(c)
	if err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	return &HeldOut{env: env, episodes: episodes}, nil
}

// After leaves out the first n episodes. A network that was chosen on them is judged without bias on those behind.
func (h *HeldOut) After(n int) { h.first = uint64(n) }

// Episodes returns the configuration of the episodes and their number. Two evaluations that agree
// in both, and leave out none, play the same episodes.
func (h *HeldOut) Episodes() (sim.Config, int) { return h.env.Config(), h.episodes }

// knower is a policy that reads the typical pods.
type knower interface {
	Know(t *fragmentation.Typical)
}

// Evaluate plays every episode with p, which takes the best-scored node at each decision.
// Heuristics with integer scores tie often; randomTies draws among the best, as kube-scheduler
// does.
func (h *HeldOut) Evaluate(p policy.Policy, randomTies bool) (Score, error) {
	var s Score
	if q, reads := p.(knower); reads {
		q.Know(h.env.Typical())
	}
	for i := range uint64(h.episodes) {
		seed := heldOutSeed + h.first + i
		o, err := eval.Play(h.env, seed, p, eval.Contender{RandomTies: randomTies}.Ties(seed))
		if err != nil {
			return s, err
		}
		s.Cost += o.Cost / float64(h.episodes)
		s.MeanCost += o.MeanCost / float64(h.episodes)
		s.Unscheduled += float64(o.Unscheduled) / float64(h.episodes)
		s.leftOver += float64(o.Unscheduled) / float64(max(o.Arrived, 1)*h.episodes)
	}
	return s, nil
}
