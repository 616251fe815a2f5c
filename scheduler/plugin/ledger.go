package plugin

import (
	"sync"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

// ledger numbers decisions and sends them on in this order, once each pod is bound or is not going
// to be. Bindings run in parallel and end in any order, so a decision waits for those before it.
type ledger struct {
	limit int                     // at most so many decisions wait; for one more the oldest is sent as unbound
	send  func(decision.Decision) // called for one decision at a time

	mu     sync.Mutex
	number uint64
	queue  []*entry // by number
}

// entry is a decision whose pod is being bound.
type entry struct {
	decision decision.Decision
	settled  bool
}

// open numbers a decision, which then waits for settle.
func (l *ledger) open(d decision.Decision) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	d.Number = l.number
	if len(l.queue) == l.limit {
		l.queue[0].settled = true // a later settle does not count
		l.release()
	}
	e := &entry{decision: d}
	l.queue = append(l.queue, e)
	return e
}

// settle notes whether the pod was bound, and its GPU devices. Only the first call for an entry counts.
func (l *ledger) settle(e *entry, devices cluster.DeviceSet, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.settled {
		e.settled = true
		e.decision.Devices, e.decision.Bound = devices, bound
		l.release()
	}
}

// release sends the decisions that no earlier one holds back.
func (l *ledger) release() {
	for len(l.queue) > 0 && l.queue[0].settled {
		l.send(l.queue[0].decision)
		l.queue = l.queue[1:]
	}
}
