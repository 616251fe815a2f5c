package decision

import "sync"

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
