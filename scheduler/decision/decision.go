package decision

import (
	"cmp"
	"slices"
	"time"

	"gnnsched/internal/cluster"
)

// Decision is the choice of a node for one pod, complete: it is delivered once the pod is bound to
// the node, or is not going to be. With one feasible node kube-scheduler scores nothing: Feasible is then
// 1, and Policy, Fingerprint, Latency and Best are empty.
type Decision struct {
	// Number counts the profile's decisions from 1, in the order in which the scheduler made them.
	// A gap means that decisions were dropped because the listener was too slow.
	Number  uint64
	Profile string
	Pod     Pod

	Policy      string // the heuristic's name, or the profile's for its network; empty if no network is loaded, or nothing was scored
	Fingerprint uint64 // of the network's checkpoint; 0 for a heuristic
	// Fallback is the reason why Policy gave no scores, as in gnnsched_fallbacks_total: the scores
	// are then those of kube-scheduler's default profile. It is empty if Policy did score.
	Fallback string
	Latency  time.Duration // from the start of scoring to the last raw score

	Feasible int // number of nodes that the pod fits on
	// Preferred is the number of these among which Policy chose. The preferences of manifests
	// excluded the others. After a fallback it equals Feasible, because upstream's scores contain
	// the preferences.
	Preferred int
	Best      []Candidate // of these at most MaxBest, the highest raw score first, equals by name

	// Node is the chosen one. It may differ from Best[0]: a profile that learns explores, blended
	// score plugins have a say, and kube-scheduler draws among equal scores.
	Node    string
	Devices cluster.DeviceSet // GPU devices chosen on Node; empty if the scheduler chose none
	Bound   bool              // whether the pod was bound to Node, as far as the scheduler has heard
}

// Pod identifies a pod.
type Pod struct {
	Namespace, Name string
	UID             string
}

// Candidate is a feasible node with its raw score; higher is better. Scores of one decision are
// comparable, those of different policies are not.
type Candidate struct {
	Node  string
	Score float32
}

// MaxBest is the number of candidates that a Decision keeps.
const MaxBest = 5

// Best returns the MaxBest candidates with the highest scores, or all if there are fewer, the
// highest first and equals by name. name returns the node of scores[i].
func Best(scores []float32, name func(i int) string) []Candidate {
	best := make([]Candidate, 0, MaxBest+1)
	for i, score := range scores {
		if len(best) == MaxBest && score < best[MaxBest-1].Score {
			continue // by far the most candidates of a large cluster
		}
		c := Candidate{Node: name(i), Score: score}
		at, _ := slices.BinarySearchFunc(best, c, order)
		best = slices.Insert(best, at, c)
		best = best[:min(len(best), MaxBest)]
	}
	return best
}

// order sorts candidates by falling score, and equals by name.
func order(a, b Candidate) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Node, b.Node))
}
