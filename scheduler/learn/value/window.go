package value

import (
	"cmp"
	"math"
	"slices"

	"gnnsched/scheduler/experience"
)

// windows turns the steps of one actor into snapshots with targets. A snapshot waits until its window is over.
//
// A running cluster has no end, and idle devices are no loss as long as every pod finds a node. So the target of a node is
// what it has idle while pods wait,
//
//	Σ_k γ^k w(k) idle(k) / Σ_k γ^k w(k)
//
// over the k = 1, 2, ... placements after the snapshot, with w = min(1, waiting devices / idle devices), so that the sum of
// w · idle over the nodes is the devices that wait though they are idle. This is the cost at the end of an episode with
// more arrivals than room (package comment), in the same unit, at the moments at which a running cluster is in that
// state. If no pod waits in a window, its snapshot is dropped: no decision before it cost anything.
type windows struct {
	halfLife float64 // placements after which an amount counts half; 0: as many as there are devices

	last    experience.Step // the latest
	known   bool
	pending []window
	taken   uint64 // number of the step of the latest snapshot
}

// window is a snapshot that waits for its targets.
type window struct {
	snapshot snapshot
	number   uint64    // of its step
	rows     []int32   // of its nodes in the latest step; -1 for one that is gone
	sums     []float64 // Σ γ^k w idle, of each node
	weight   float64   // Σ γ^k w
}

const (
	// horizon is the length of a window in half-lives. What comes later would count less than an eighth.
	horizon = 3
	// mostPending is the largest number of windows at a time.
	mostPending = 256
)

// take adds what a step shows to all windows, and returns the snapshots whose windows are over. It takes a snapshot of the
// step if that is due.
func (w *windows) take(s experience.Step) (done []snapshot) {
	g := s.GPU
	if w.known && !s.SameLife(w.last) { // what the pods did in between is not known
		w.pending, w.taken = nil, 0
	}
	all, idle := g.Devices()
	half := cmp.Or(w.halfLife, all)
	w.follow(g)
	scarce := min(1, g.Waiting/max(idle, 1e-9))
	left := w.pending[:0]
	for _, p := range w.pending {
		age := float64(s.Number - p.number)
		p.see(g, scarce*math.Exp2(-age/half))
		if age < horizon*half {
			left = append(left, p)
		} else if out, ok := p.end(); ok {
			done = append(done, out)
		}
	}
	clear(w.pending[len(left):])
	w.pending = left
	if every := uint64(math.Ceil(horizon * half / mostPending)); len(g.Vertices) > 0 && (w.taken == 0 || s.Number >= w.taken+max(every, 1)) {
		w.pending, w.taken = append(w.pending, begin(s)), s.Number
	}
	w.last, w.known = s, true
	w.last.GPU = &experience.GPUState{Nodes: g.Nodes}
	return done
}

func begin(s experience.Step) window {
	g := s.GPU
	return window{
		snapshot: snapshot{Cluster: g.Cluster, Nodes: g.Vertices, Before: g.Before, After: g.After, Teacher: -1},
		number:   s.Number, rows: append([]int32(nil), g.Rows...), sums: make([]float64, len(g.Rows)),
	}
}

// see adds the idle devices of a state with a weight.
func (p *window) see(g *experience.GPUState, weight float64) {
	p.weight += weight
	for i, row := range p.rows {
		if row >= 0 {
			p.sums[i] += weight * float64(g.Nodes[row].Idle)
		}
	}
}

// leastWeight is the weight of a window in which no pod waited.
const leastWeight = 1e-6

// end returns the snapshot with its targets, without the nodes that are gone. It is not ok if nobody waited, or
// no node is left.
func (p *window) end() (out snapshot, ok bool) {
	if p.weight < leastWeight {
		return out, false
	}
	out = p.snapshot
	nodes := out.Nodes
	out.Nodes = nil
	for i, row := range p.rows {
		if row >= 0 {
			out.Nodes = append(out.Nodes, nodes[i])
			out.Targets = append(out.Targets, float32(p.sums[i]/p.weight))
		}
	}
	return out, len(out.Nodes) > 0
}

// follow gives the windows' nodes their rows in the next state, if nodes have come or gone.
func (w *windows) follow(g *experience.GPUState) {
	if !w.known || len(w.pending) == 0 || sameNodes(w.last.GPU.Nodes, g.Nodes) {
		return
	}
	now := make(map[uint64]int32, len(g.Nodes))
	for i, n := range g.Nodes {
		now[n.ID] = int32(i)
	}
	for _, p := range w.pending {
		for i, row := range p.rows {
			if row < 0 {
				continue
			}
			p.rows[i] = -1
			if at, stays := now[w.last.GPU.Nodes[row].ID]; stays {
				p.rows[i] = at
			}
		}
	}
}

func sameNodes(a, b []experience.GPUAmounts) bool {
	return slices.EqualFunc(a, b, func(a, b experience.GPUAmounts) bool { return a.ID == b.ID })
}

// bytes returns the memory that the windows take.
func (w *windows) bytes() (sum int) {
	for i := range w.pending {
		p := &w.pending[i]
		sum += p.snapshot.bytes() + 12*len(p.rows)
	}
	return sum
}
