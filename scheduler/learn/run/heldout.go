package run

import (
	"fmt"
	"maps"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
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

// Evaluate plays every episode with p, which takes the best-scored node at each decision.
// Heuristics with integer scores tie often; randomTies draws among the best, as kube-scheduler
// does.
func (h *HeldOut) Evaluate(p policy.Policy, randomTies bool) (Score, error) {
	var s Score
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

// Judgement is the result of a network on episodes that neither trained nor chose it, beside those of other policies on the same episodes.
type Judgement struct {
	Network, Default Score // Default is kube-scheduler's default scoring
	// Teacher is the policy that the run imitated. TeacherName is empty if it imitated none.
	Teacher     Score
	TeacherName string
	Total       float64 // of Network, as in HeldOutScore
}

// Judge plays the episodes with a network, the teacher of an imitation and the default scoring. unscheduled is the weight of Score.Total.
func (h *HeldOut) Judge(c *checkpoint.Checkpoint, i Imitation, unscheduled float64) (out Judgement, err error) {
	net, err := infer.New(c)
	if err != nil {
		return out, err
	}
	if out.Network, err = h.Evaluate(neural.New("judged", net, nil), false); err != nil {
		return out, err
	}
	out.Total = out.Network.Total(unscheduled)
	if out.Default, err = h.Evaluate(heuristic.Kubernetes{}, true); err != nil {
		return out, err
	}
	if !i.Taught() {
		return out, nil
	}
	out.TeacherName = i.Teacher
	var teacher policy.Policy
	if teacher, err = TeacherByName(out.TeacherName, h.env.Typical()); err == nil {
		out.Teacher, err = h.Evaluate(teacher, true)
	}
	return out, err
}

// Figures returns the judgement for the manifest of the network.
func (j Judgement) Figures() map[string]float64 {
	out := j.Network.Figures("judged")
	out["judgedScore"] = j.Total
	maps.Copy(out, j.Default.Figures("judgedDefault"))
	if j.TeacherName != "" {
		maps.Copy(out, j.Teacher.Figures("judgedTeacher"))
	}
	return out
}

// String says how the network, its teacher and the default scoring did.
func (j Judgement) String() string {
	others := []string{fmt.Sprintf("default scoring: %v", j.Default)}
	if j.TeacherName != "" {
		others = append([]string{fmt.Sprintf("its teacher, %s: %v", j.TeacherName, j.Teacher)}, others...)
	}
	return fmt.Sprintf("%v (%s)", j.Network, strings.Join(others, "; "))
}
