package plugin

import (
	"sync"

	"gnnsched/scheduler/experience"
)

// ledger hands steps on in the order of their decisions and once their pods are bound;
// bindings run beside each other and end in any order. A step whose pod is not bound leaves
// a gap in the numbers.
type ledger struct {
	limit int                   // bindings under way; the oldest is given up for one more
	send  func(experience.Step) // takes the steps, one at a time
	lose  func()                // is called for each that is given up

	mu     sync.Mutex
	number uint64
	queue  []*entry // by number
}

// entry is a step whose pod is being bound.
type entry struct {
	step           experience.Step
	settled, bound bool
}

// open numbers a step and waits for settle.
func (l *ledger) open(s experience.Step) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	s.Number = l.number
	if len(l.queue) == l.limit {
		l.queue[0].settled = true // and stays unbound, whatever becomes of it
		l.release()
	}
	e := &entry{step: s}
	l.queue = append(l.queue, e)
	return e
}

// settle says whether the pod was bound. The first word counts.
func (l *ledger) settle(e *entry, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.settled {
		e.settled, e.bound = true, bound
		l.release()
	}
}

// release hands on what nothing earlier holds back.
func (l *ledger) release() {
	for len(l.queue) > 0 && l.queue[0].settled {
		if e := l.queue[0]; e.bound {
			l.send(e.step)
		} else {
			l.lose()
		}
		l.queue = l.queue[1:]
	}
}
