package shadow

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

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
