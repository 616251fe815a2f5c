package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/advise"
)

// Comparison is a pod that the other scheduler bound, with the profile's choice for it.
type Comparison struct {
	Time   time.Time `json:"time"`
	Pod    string    `json:"pod"`
	What   outcome   `json:"what"`
	Theirs string    `json:"theirs"`         // the node that it got
	Node   string    `json:"node,omitempty"` // the profile's choice; empty if none fits
	Gained float64   `json:"gained"`         // cost after their choice minus cost after ours; over 0 if ours is better
	Took   float64   `json:"took"`           // seconds
	Why    string    `json:"why,omitempty"`  // of a failure
}

// Live holds the findings so far of a running Watcher. Its report has no batches.
type Live struct {
	Report
	Results   []Result     `json:"results"`
	Agreement float64      `json:"agreement"` // the share of the same and equally good nodes among the pods with a choice
	Recent    []Comparison `json:"recent"`    // the last ones, the newest first
	Course    []Block      `json:"course"`    // the time so far, in blocks of equal length
}

// Path is the path of a shadow scheduler's Live.
const Path = "/debug/shadow"

const (
	// keptComparisons is the number of comparisons kept for Live.
	keptComparisons = 100
	// mostCourse bounds the blocks of a Live. If there are more, each two become one.
	mostCourse = 240
)

// Live returns the findings so far of a running Watcher. It waits until the pending events are handled, or Run or ctx ends.
func (w *Watcher) Live(ctx context.Context) (Live, error) {
	reply := make(chan Live, 1)
	for asked := w.asked; ; {
		select {
		case asked <- reply:
			asked = nil
		case l := <-reply:
			return l, nil
		case <-w.ended:
			return Live{}, errors.New("the watcher has ended")
		case <-ctx.Done():
			return Live{}, fmt.Errorf("ask the watcher: %w", ctx.Err())
		}
	}
}

// live answers Live.
func (w *Watcher) live() Live {
	r := w.Report()
	// lists in JSON, also without elements
	l := Live{
		Report: r, Results: r.results(), Agreement: r.Counts.agreement(), Recent: append([]Comparison{}, w.recent...),
		Course: append([]Block{}, w.blocks.full...),
	}
	slices.Reverse(l.Recent)
	l.Batches = nil
	for len(l.Course) > mostCourse {
		l.Course = pairBlocks(l.Course)
	}
	return l
}

// ServeHTTP implements http.Handler. It answers GET with what was found so far.
func (w *Watcher) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Header().Set("Allow", "GET, HEAD")
		http.Error(out, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	if err := w.Ready(); err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	found, err := w.Live(r.Context())
	if err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(found)
	if err != nil { // a cost that is not a number
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = out.Write(text) // the caller may have gone
}

// ParseLive reads the answer of a Watcher. It returns the same errors as Parse.
func ParseLive(text []byte) (Live, error) {
	if _, err := Parse(text); err != nil {
		return Live{}, err
	}
	var l Live
	if err := json.Unmarshal(text, &l); err != nil {
		return Live{}, exit.New(exit.Usage, fmt.Errorf("it does not say what a scheduler in the shadow has found: %w", err),
			"are both programs of the same version?")
	}
	return l, nil
}

// note keeps a comparison for Live.
func (w *Watcher) note(p *v1.Pod, j judgement) {
	w.recent = append(w.recent, Comparison{
		Time: w.config.Clock.Now(), Pod: advise.Shorten(p.Namespace+"/"+p.Name, maxText), What: j.outcome,
		Theirs: advise.Shorten(p.Spec.NodeName, maxText),
		Node:   advise.Shorten(j.Node, maxText), Gained: j.gained, Took: j.Took.Seconds(), Why: advise.Shorten(j.why, maxText),
	})
	if len(w.recent) > keptComparisons {
		w.recent = slices.Delete(w.recent, 0, 1)
	}
}

// event is a change of a pod or of a node. Old is nil if it was added, new if it was deleted.
type event struct {
	at       time.Time
	initial  bool // part of the first list
	old, pod *v1.Pod
	was, now *v1.Node
}

// rank orders the events of the beginning. The first lists come in any order, but the profile may try a pod that waits only when the
// nodes and the pods that run are known; otherwise it takes their room.
func (e event) rank() int {
	switch {
	case !e.initial:
		return 3
	case e.pod == nil:
		return 0
	case e.pod.Spec.NodeName != "":
		return 1
	}
	return 2
}

// queue holds events that have not been worked off. It is safe for concurrent use.
type queue struct {
	clock clock.PassiveClock
	more  chan struct{} // holds a value if there may be events

	mu   sync.Mutex
	list []event
}

func newQueue(c clock.PassiveClock) *queue { return &queue{clock: c, more: make(chan struct{}, 1)} }

func (q *queue) put(e event) {
	e.at = q.clock.Now()
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns the events that wait, and empties the queue.
func (q *queue) take() []event {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.list
	q.list = nil
	return out
}

// length returns the number of events that wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}
