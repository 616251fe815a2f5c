package policy

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy/preference"
)

// Policy scores candidate nodes for a pod; the node with the highest score is the best. A policy
// may keep state between calls and is not safe for concurrent use.
type Policy interface {
	// Name is the policy's name in tables and logs.
	Name() string
	// Score writes the score of node s.Nodes[candidates[i]] for pod to scores[i]. Both slices
	// have the same length. After an error the scores are undefined.
	Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error
}

// Upstream is a policy that stands for a profile of upstream's plugins, in which preferences are
// further score plugins. Preferences come first for all other policies.
type Upstream interface {
	Policy
	// PreferenceWeights returns the weights of upstream's preference plugins: the total score of a node is the
	// sum of the policy's score and of these plugins' weighted scores.
	PreferenceWeights() preference.Weights
}

// Setting describes the episode or scheduler profile that a policy is made for.
type Setting struct {
	Seed    uint64                 // of the policy's random numbers
	Typical *fragmentation.Typical // the workload's typical pods; nil if they are not known
	Running *fragmentation.Typical // the same with each pod counted by the time for which it runs; nil if that is not known
}

// Best returns the index of the highest score, the first of equal ones; -1 if there are none.
func Best(scores []float32) int {
	best := -1
	for i, v := range scores {
		if best < 0 || v > scores[best] {
			best = i
		}
	}
	return best
}
