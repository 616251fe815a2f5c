package decision

import (
	"sync"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

// Decision is the choice of a node for one pod, complete: it is delivered once the pod is bound to
// the node, or is not going to be. With one feasible node kube-scheduler scores nothing: Feasible is then
// 1, and Policy, Fingerprint, Latency and Best are empty.
//
// A pod for which no node was found leaves a Decision without a Node. It has no Number, and only its
// Profile, Pod, At, Nodes, Refused, Failure, Nominated and Really are set.
type Decision struct {
	// Number counts the profile's choices of a node from 1, in the order in which the scheduler made them.
	// A gap means that decisions were dropped because the listener was too slow.
	Number  uint64
	Profile string
	Pod     Pod
	At      time.Time // when scoring began, a single node was reserved, or the attempt failed

	// Group is the pod's group, canary or rest, in a profile whose policy has a share of the pods. For the rest, kube-scheduler's default
	// profile gives the scores, and Policy is empty. Without a share, Group is empty.
	Group       string
	Policy      string // the heuristic's name, or the profile's for its network; empty if no network is loaded, or nothing was scored
	Fingerprint uint64 // of the network's checkpoint; 0 for a heuristic
	// Fallback is the reason why Policy gave no scores, as in gnnsched_fallbacks_total; kube-scheduler's default profile then gave the scores.
	// It is empty if Policy gave the scores.
	Fallback string
	Latency  time.Duration // from the start of scoring to the last raw score

	// Nodes is the number of nodes in the scheduler's snapshot. The scheduler looks at no more of them than it needs to find enough feasible
	// ones; 0 if not counted.
	Nodes    int
	Refused  []Refusal // why the filters refused nodes, the most frequent reason first
	Feasible int       // number of nodes that the pod fits on
	// Preferred is the number of these among which Policy chose. The preferences of manifests
	// excluded the others. After a fallback it equals Feasible, because upstream's scores contain
	// the preferences.
	Preferred int
	Best      []Candidate // of these at most MaxBest, the highest raw score first, equals by name
	// Default is the choice of kube-scheduler's default profile; nil if it was not asked.
	Default *Default

	// Node is the chosen one. It may differ from Best[0]: a profile that learns explores, blended
	// score plugins have a say, and kube-scheduler draws among equal scores.
	Node    string
	Devices cluster.DeviceSet // GPU devices chosen on Node; empty if the scheduler chose none
	Claimed []ClaimedDevice   // the devices that the pod got on Node by its ResourceClaims, in their order
	Bound   bool              // whether the pod was bound to Node, as far as the scheduler has heard
	// Really is the node to which another scheduler bound the pod, for a profile in its shadow: the decision places
	// nothing. It is empty for a scheduler that places pods. If the policy scored Really and it is not among the MaxBest,
	// it has the last place in Best.
	Really string

	// Step is the step from which a profile learns; nil for none. Records do not have it.
	Step any

	Failure   string // why no node was found; empty if one was
	Nominated string // the node on which preemption makes room for the pod; empty for none
}

// Pod identifies a pod.
type Pod struct {
	Namespace, Name string
	UID             string
}

// ClaimedDevice is a device that a pod has by a ResourceClaim, whole or in part.
type ClaimedDevice struct {
	// Claim is the claim's name. It is empty for the claim of extended resources, which has none before the pod is bound.
	Claim   string `json:"claim,omitempty"`
	Request string `json:"request"` // of the claim; REQUEST/ALTERNATIVE if it has alternatives
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Name    string `json:"device"`
	Milli   int64  `json:"milli,omitempty"` // thousandths of the physical GPU; 0 for devices that policies do not know
}

// Candidate is a feasible node with its raw score; higher is better. Scores are comparable only within one decision and policy.
type Candidate struct {
	Node  string  `json:"node"`
	Score float32 `json:"score"`
	// Read holds the policy's features of the node. It is nil for all but the best two and the default's choice, for
	// policies that cannot tell, after a fallback, and unless the profile's decisions are recorded.
	Read *policy.Reading `json:"read,omitempty"`
	// Cards names the GPUs that Policy would choose on the node for the pod's claims, as DRIVER/POOL/NAME. It is nil where
	// Read is, and for pods without claims.
	Cards []string `json:"cards,omitempty"`
}

// Refusal is a reason why nodes cannot take a pod.
type Refusal struct {
	Plugin string `json:"plugin,omitempty"` // that refused them; "several" if PreFilter plugins together left them out
	Reason string `json:"reason"`           // upstream's
	Nodes  int    `json:"nodes"`
}

// Default is the choice of kube-scheduler's default profile among the same feasible nodes.
type Default struct {
	// Candidate is the node with the default profile's highest total. Of tied ones it is the best by Policy,
	// because kube-scheduler draws among them. Its Score is Policy's.
	Candidate
	Ties int `json:"ties"` // number of nodes with the highest total, at least 1
	// Preferred is false if the preferences of manifests kept the node from Policy. Score is then 0.
	Preferred bool `json:"preferred"`
}

// MaxBest is the number of candidates that a Decision keeps.
const MaxBest = 5

// Best returns the indices of the MaxBest highest scores, or of all if there are fewer, the highest first and equals by
// name. name returns the node of scores[i].
func Best(scores []float32, name func(i int) string) []int {
	best := make([]int, 0, MaxBest)
	for i, score := range scores {
		at := len(best)
		for at > 0 && (score > scores[best[at-1]] || score == scores[best[at-1]] && name(i) < name(best[at-1])) {
			at--
		}
		if at == MaxBest {
			continue // by far the most candidates of a large cluster
		}
		best = append(best[:min(len(best), MaxBest-1)], 0)
		copy(best[at+1:], best[at:])
		best[at] = i
	}
	return best
}

// Listener receives every decision of a profile. A Queue calls it from one goroutine.
type Listener interface {
	// Decided takes one decision. While it runs, later decisions wait in the queue.
	Decided(Decision)
}

// Queue hands decisions to one listener, in order, from a goroutine of its own.
type Queue struct {
	dropped func(Decision)
	waiting chan Decision
	done    chan struct{}

	mu     sync.Mutex // guards waiting against a close during an Offer
	closed bool
}

// NewQueue starts the goroutine, which ends with Close. At most size decisions wait for the listener. dropped is called for each decision
// without room, in the goroutine that offers it.
func NewQueue(l Listener, size int, dropped func(Decision)) *Queue {
	q := &Queue{dropped: dropped, waiting: make(chan Decision, size), done: make(chan struct{})}
	go func() {
		defer close(q.done)
		for d := range q.waiting {
			l.Decided(d)
		}
	}()
	return q
}

// Offer hands a decision over without waiting for the listener. A decision that finds no room, or
// that comes after Close, is dropped.
func (q *Queue) Offer(d Decision) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.dropped(d)
		return
	}
	select {
	case q.waiting <- d:
	default:
		q.dropped(d)
	}
}

// Close waits until the listener has heard every decision that waits, and ends the goroutine.
// Further calls do nothing but wait.
func (q *Queue) Close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.waiting)
	}
	q.mu.Unlock()
	<-q.done
}
