package shadow

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/memcluster"
)

// outcome is the result of a comparison, and a label of gnnsched_shadow_decisions_total.
type outcome string

const (
	// same: the profile chooses the same node.
	same outcome = "same"
	// equal: the profile would draw among tied nodes, one of which is theirs, or chooses a node exactly like theirs.
	equal outcome = "equal"
	// different: the profile chooses another node.
	different outcome = "different"
	// only: one node fits, so nothing was to be decided.
	only outcome = "only"
	// unschedulableForUs: no node fits for the profile, though the other scheduler placed the pod.
	unschedulableForUs outcome = "unschedulable"
	// infeasible: the profile chooses a node that upstream's default filters refuse.
	infeasible outcome = "infeasible"
)

var outcomes = []outcome{same, equal, different, only, unschedulableForUs, infeasible}

// judgement compares the profile's choice for a pod with the node that the pod got.
type judgement struct {
	outcome
	memcluster.Choice
	skewed bool    // the profile's filters refuse the pod's node: the other scheduler saw another state
	gained float64 // cost after their choice minus cost after ours; over 0 if ours is better
	why    string  // for unschedulableForUs and infeasible
}

// judge compares in the state before the pod was bound.
func judge(ctx context.Context, c *memcluster.Cluster, pod *v1.Pod) (judgement, error) {
	ch, err := c.Choose(ctx, pod)
	if err != nil {
		return judgement{}, err
	}
	theirs := pod.Spec.NodeName
	j := judgement{Choice: ch, outcome: different}
	j.why, j.skewed = ch.Refused[theirs]
	switch {
	case ch.Feasible == 0:
		j.outcome = unschedulableForUs
		return j, nil
	case ch.Feasible == 1:
		j.outcome = only
	case ch.Node == theirs:
		j.outcome = same
	case slices.Contains(ch.Best, theirs) || !j.skewed && c.Alike(ch.Node, theirs):
		j.outcome = equal
	}
	why, err := c.Admits(ctx, pod, ch.Node)
	if err != nil {
		return judgement{}, err
	}
	if why != "" {
		j.outcome, j.why = infeasible, advise.Shorten(why, maxText)
		return j, nil
	}
	if j.outcome == different {
		after, known := c.After(pod, theirs)
		own, _ := c.After(pod, ch.Node)
		if known {
			j.gained = after - own
		}
	}
	return j, nil
}

// rounding is the difference of two costs that is rounding.
const rounding = 1e-12

// sign returns 1 if the profile's choice is better, -1 if theirs is.
func (j judgement) sign() int {
	if math.Abs(j.gained) < rounding {
		return 0
	}
	return int(math.Copysign(1, j.gained))
}
