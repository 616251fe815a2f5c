package policy

import (
	"gnnsched/internal/cluster"
)

// Policy scores candidates; the best has the highest score. A policy may keep state between
// calls and is not safe for concurrent use.
type Policy interface {
	// Name is how tables and logs call the policy.
	Name() string
	// Score writes the score of node candidates[i] for pod to scores[i]; the two slices have
	// the same length. An error means that scores hold nothing of use.
	Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error
}

// Best returns the index of the highest score, the first of equals; -1 for none.
func Best(scores []float32) int {
	best := -1
	for i, v := range scores {
		if best < 0 || v > scores[best] {
			best = i
		}
	}
	return best
}
