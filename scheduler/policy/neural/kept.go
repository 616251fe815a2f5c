package neural

import (
	"slices"
	"sync"
	"time"

	"gnnsched/internal/cluster"
)

const (
	keptDecisions = 8
	keptNodes     = 64               // of a decision; of more, every k-th is kept
	keepEvery     = 10 * time.Second // the time between two decisions that are kept
)

// Kept holds the latest decisions of a scheduler, one for each ten seconds, so that a new network can be tried on them. The zero
// value holds none. It is safe for concurrent use.
type Kept struct {
	mu   sync.Mutex
	next time.Time
	ring []Decision
	at   int // of the oldest, once the ring is full
}

// Keep keeps a copy of a decision that was made at a time, unless another was kept shortly before. Which pods exchange data is not kept.
func (k *Kept) Keep(d Decision, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.Before(k.next) {
		return
	}
	k.next = at.Add(keepEvery)
	if len(k.ring) < keptDecisions {
		k.ring = append(k.ring, d.copy())
		return
	}
	k.ring[k.at] = d.copy()
	k.at = (k.at + 1) % keptDecisions
}

// Decisions returns the decisions that are kept. The caller must not change them.
func (k *Kept) Decisions() []Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ring)
}

// copy returns the decision on a cluster of its candidates alone.
func (d Decision) copy() Decision {
	s, pod := &cluster.Snapshot{Now: d.Snapshot.Now}, *d.Pod
	for i := 0; i < len(d.Candidates); i += (len(d.Candidates) + keptNodes - 1) / keptNodes {
		n := *d.Snapshot.Nodes[d.Candidates[i]]
		n.GPUs, n.Groups, n.Slices, n.Traffic = slices.Clone(n.GPUs), slices.Clone(n.Groups), slices.Clone(n.Slices), nil
		if n.Usage != nil {
			u := *n.Usage
			u.Recent = slices.Clone(u.Recent)
			n.Usage = &u
		}
		s.Nodes = append(s.Nodes, &n)
	}
	rows := make([]int32, len(s.Nodes))
	for i := range rows {
		rows[i] = int32(i)
	}
	return Decision{Snapshot: s, Pod: &pod, Candidates: rows, Typical: d.Typical}
}
