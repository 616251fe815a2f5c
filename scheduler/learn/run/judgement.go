package run

import (
	"fmt"
	"maps"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

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
