package policy

import "gnnsched/internal/cluster"

// ReadingKind says how a policy made a score of a Reading.
type ReadingKind string

// The kinds of readings.
const (
	// LinearReading has one number for each of linear.Features, and Weights. The score is their dot product.
	LinearReading ReadingKind = "linear"
	// NetworkReading has what infer.Network.ScoreOf reads.
	NetworkReading ReadingKind = "network"
	// ValueReading has a node's value, which is a cost, before and after the placement. The score is the first minus
	// the second. What infer.GPUNetwork.AttributeStep reads may follow.
	ValueReading ReadingKind = "value"
)

// Reading holds the inputs that a policy read of one candidate: enough to compute the candidate's score again.
type Reading struct {
	Kind     ReadingKind
	Features []float32 // finite
	Weights  []float32 // of a LinearReading
}

// Reader is a policy that can tell what it read.
type Reader interface {
	Policy
	// Reading returns what the last Score read of the node in row candidates[i]; nil if it does not know. The
	// arguments are those of that Score. Nobody else holds the result.
	Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *Reading
}
