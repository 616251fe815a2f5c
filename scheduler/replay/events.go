package replay

import (
	"cmp"
	"container/heap"

	"gnnsched/workload/record"
)

// kind is the kind of an event. Events of one time happen in the order of their kinds.
type kind int

const (
	podEnds kind = iota
	nodeGoes
	nodeChanges // or comes
	podBinds    // really
	podArrives
)

// event is something that happens to a pod or a node of the source.
type event struct {
	at   int64
	kind kind
	row  int // of Source.Pods or Source.Nodes
}

// agenda holds events, the next one first.
type agenda []event

// Len implements heap.Interface.
func (a agenda) Len() int { return len(a) }

// Less implements heap.Interface.
func (a agenda) Less(i, j int) bool {
	x, y := a[i], a[j]
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.kind, y.kind), cmp.Compare(x.row, y.row)) < 0
}

// Swap implements heap.Interface.
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// settling is the time after a node's arrival in which pods of DaemonSets may get it and still count as part of it, in milliseconds.
const settling = 30_000

// agendaOf returns the events of the window and the events that lead to the state at its beginning. If a profile places the pods, the pods
// of DaemonSets take their part of a new node at once. Otherwise waiting pods would have filled it before they come.
func agendaOf(s *Source, real bool) agenda {
	var a agenda
	came := map[string][]int64{}
	if !real {
		came = comings(s.Nodes)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.From < s.To && (n.To == 0 || n.To > max(s.From, n.From)) {
			a = append(a, event{max(n.From, s.From), nodeChanges, i})
		}
		if n.Gone && n.To > s.From && n.To < s.To {
			a = append(a, event{n.To, nodeGoes, i})
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		if p.Bound == 0 || p.Bound > s.From {
			a = append(a, event{max(p.Arrived, s.From), podArrives, i})
		}
		if p.Bound != 0 && p.Bound < s.To {
			at := p.Bound
			for _, t := range came[p.Node] {
				if p.Daemon && t < p.Bound && p.Bound-t <= settling {
					at = t
				}
			}
			a = append(a, event{max(at, s.From), podBinds, i})
		}
		if p.Ended != 0 && p.Ended < s.To {
			a = append(a, event{max(p.Ended, p.Bound+1, p.Arrived+1), podEnds, i}) // it runs for a millisecond at least
		}
	}
	heap.Init(&a)
	return a
}

// comings returns when each node came.
func comings(nodes []record.Node) map[string][]int64 {
	type state struct {
		name string
		to   int64
	}
	stayed := map[state]bool{}
	for i := range nodes {
		if n := &nodes[i]; !n.Gone {
			stayed[state{n.Name, n.To}] = true
		}
	}
	out := map[string][]int64{}
	for i := range nodes {
		if n := &nodes[i]; !stayed[state{n.Name, n.From}] {
			out[n.Name] = append(out[n.Name], n.From)
		}
	}
	return out
}
