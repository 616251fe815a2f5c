package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/policy"
)

// schemaVersion is the version of Record's form. It rises when a field changes its meaning or goes.
const schemaVersion = 1

// Outcomes of a decision.
const (
	Bound         = "bound"
	notBound      = "not bound" // reserving or binding failed, or had not ended when 64 later pods had a node
	Unschedulable = "unschedulable"
	Shadow        = "shadow" // made in the shadow of another scheduler: it places nothing; without a node if none fits
)

// Record is a decision in the form in which it is served and written.
type Record struct {
	Schema    int       `json:"schema"`
	Time      time.Time `json:"time"`
	Profile   string    `json:"profile"`
	Number    uint64    `json:"number,omitempty"` // Decision.Number
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Outcome   string    `json:"outcome"` // Bound, notBound, Unschedulable or Shadow

	Node    string `json:"node,omitempty"`
	Devices []int  `json:"devices,omitempty"` // indices of the chosen GPU devices

	Claimed []ClaimedDevice `json:"claimed,omitempty"` // Decision.Claimed

	Group       string  `json:"group,omitempty"` // Decision.Group
	Policy      string  `json:"policy,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"` // of the weights, 16 hexadecimal digits
	Fallback    string  `json:"fallback,omitempty"`
	Latency     float64 `json:"latencyMicroseconds,omitempty"`

	Nodes     int       `json:"nodes,omitempty"`
	Refused   []Refusal `json:"refused,omitempty"`
	Feasible  int       `json:"feasible"`
	Preferred int       `json:"preferred"`

	Best     []Candidate `json:"best,omitempty"`
	RunnerUp string      `json:"runnerUp,omitempty"` // the best candidate that was not chosen
	Margin   *float64    `json:"margin,omitempty"`   // score of the node minus the runner-up's score; absent if one is not known
	Default  *Default    `json:"default,omitempty"`

	Failure   string `json:"failure,omitempty"`
	Nominated string `json:"nominated,omitempty"`

	Really string `json:"really,omitempty"` // Decision.Really; set if Outcome is Shadow
}

// RecordOf returns the record of a decision.
func RecordOf(d *Decision) Record {
	r := Record{
		Schema: schemaVersion, Time: d.At.UTC(), Profile: d.Profile, Number: d.Number,
		Namespace: d.Pod.Namespace, Pod: d.Pod.Name, UID: d.Pod.UID, Outcome: outcome(d),
		Node: d.Node, Group: d.Group, Policy: d.Policy, Fallback: d.Fallback, Latency: float64(d.Latency.Nanoseconds()) / 1000,
		Nodes: d.Nodes, Feasible: d.Feasible, Preferred: d.Preferred, Failure: d.Failure, Nominated: d.Nominated, Really: d.Really,
		Claimed: d.Claimed, Refused: d.Refused, Best: d.Best, Default: d.Default,
	}
	if d.Fingerprint != 0 {
		r.Fingerprint = fmt.Sprintf("%016x", d.Fingerprint)
	}
	for i := range 64 {
		if d.Devices.Has(i) {
			r.Devices = append(r.Devices, i)
		}
	}
	if i := slices.IndexFunc(r.Best, func(c Candidate) bool { return c.Node != r.Node }); i >= 0 {
		r.RunnerUp = r.Best[i].Node
		if chosen, known := r.Find(r.Node); known {
			r.Margin = new(float64(chosen.Score) - float64(r.Best[i].Score))
		}
	}
	return r
}

// Find returns the candidate of a node. known is false if it is neither in Best nor the default's choice.
func (r *Record) Find(node string) (c Candidate, known bool) {
	if i := slices.IndexFunc(r.Best, func(c Candidate) bool { return c.Node == node }); i >= 0 {
		return r.Best[i], true
	}
	if d := r.Default; d != nil && d.Preferred && d.Node == node && node != "" {
		return d.Candidate, true
	}
	return c, false
}

func outcome(d *Decision) string {
	switch {
	case d.Really != "":
		return Shadow
	case d.Node == "":
		return Unschedulable
	case d.Bound:
		return Bound
	}
	return notBound
}

// The bytes of texts in a record, and the number of reasons.
const (
	maxName    = 253 // Kubernetes' limit for names of pods and nodes
	maxReason  = 200
	maxFailure = 600
	maxReasons = 16
	maxClaimed = 64 // devices of a pod's claims, and cards of a candidate
)

// bound cuts the lists of a decision's record, and makes its texts safe to print. It copies
// what it changes, because other listeners hold it.
func (r *Record) bound() {
	if more := len(r.Refused) - maxReasons; more > 0 {
		others := Refusal{Reason: "other reasons"}
		for _, f := range r.Refused[maxReasons-1:] {
			others.Nodes += f.Nodes
		}
		r.Refused = append(slices.Clone(r.Refused[:maxReasons-1]), others)
	}
	r.Refused, r.Best = slices.Clone(r.Refused), slices.Clone(r.Best[:min(len(r.Best), MaxBest)])
	r.Claimed = slices.Clone(r.Claimed[:min(len(r.Claimed), maxClaimed)])
	if r.Default != nil {
		r.Default = new(*r.Default)
	}
	r.shorten()
}

// shorten makes a record's texts safe to print.
func (r *Record) shorten() {
	for _, s := range []*string{
		&r.Profile, &r.Namespace, &r.Pod, &r.UID, &r.Node, &r.Group, &r.Policy, &r.Fingerprint, &r.Fallback, &r.RunnerUp, &r.Nominated, &r.Really,
	} {
		*s = short(*s, maxName)
	}
	r.Failure = short(r.Failure, maxFailure)
	for i := range r.Refused {
		r.Refused[i].Plugin, r.Refused[i].Reason = short(r.Refused[i].Plugin, maxName), short(r.Refused[i].Reason, maxReason)
	}
	for i := range r.Claimed {
		c := &r.Claimed[i]
		for _, s := range []*string{&c.Claim, &c.Request, &c.Driver, &c.Pool, &c.Name} {
			*s = short(*s, maxName)
		}
	}
	for i := range r.Best {
		shorten(&r.Best[i])
	}
	if r.Default != nil {
		shorten(&r.Default.Candidate)
	}
}

// shorten bounds a candidate's texts. It copies the names of cards.
func shorten(c *Candidate) {
	c.Node, c.Cards = short(c.Node, maxName), slices.Clone(c.Cards[:min(len(c.Cards), maxClaimed)])
	for i := range c.Cards {
		c.Cards[i] = short(c.Cards[i], 3*maxName) // driver, pool and name
	}
}

// short bounds a text to about n bytes and one line, without control characters. Nearly all texts are so already.
func short(s string, n int) string {
	plain := len(s) <= n
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return strings.ReplaceAll(exit.Clean(s, n), "\n", " ")
}

// maxRecordBytes bounds a record that is read. The largest that a Book writes is far smaller.
const maxRecordBytes = 1 << 20

// ParseRecord reads a record from its JSON object, and makes its texts safe to print. Fields that are not known are
// ignored.
func ParseRecord(line []byte) (Record, error) {
	if len(line) > maxRecordBytes {
		return Record{}, fmt.Errorf("a record of more than %d bytes", maxRecordBytes)
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("no record of a decision: %w", err)
	}
	return r, r.check()
}

// check validates a record that was read, and makes its texts safe to print.
func (r *Record) check() error {
	switch {
	case r.Schema == 0:
		return errors.New("no record of a decision: it has no schema")
	case r.Schema != schemaVersion:
		return fmt.Errorf("a record of schema %d, but this version reads schema %d", r.Schema, schemaVersion)
	case r.Outcome != Bound && r.Outcome != notBound && r.Outcome != Unschedulable && r.Outcome != Shadow:
		return fmt.Errorf("outcome %s is not known", strconv.QuoteToASCII(short(r.Outcome, maxReason)))
	case (r.Outcome == Shadow) != (r.Really != ""):
		return fmt.Errorf("outcome %s does not go with a pod that is really on %q", r.Outcome, short(r.Really, maxName))
	case r.Outcome != Shadow && (r.Outcome == Unschedulable) != (r.Node == ""):
		return fmt.Errorf("outcome %s does not go with node %q", r.Outcome, short(r.Node, maxName))
	case len(r.Best) > MaxBest || len(r.Refused) > maxReasons || len(r.Devices) > 64 || len(r.Claimed) > maxClaimed:
		return errors.New("a list in the record is too long")
	}
	r.shorten()
	return nil
}

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
	// Spread is how well the pod's replicas would be spread with the node, in 0 to 100 among the feasible ones, if nothing else is
	// declared and default spreading is weighed against Score; 0 for all nodes otherwise.
	Spread int64 `json:"spread,omitempty"`
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
