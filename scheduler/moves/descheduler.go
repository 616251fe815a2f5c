package moves

import (
	"maps"
	"slices"

	"gnnsched/internal/cluster"
)

// highNodeUtilization is descheduler's rule of that name, for comparison: the pods of the nodes of which less than a fifth is requested
// go to the other nodes, as long as these take them. Nodes need not become empty.
type highNodeUtilization struct{}

const underutilized = 0.2

func (highNodeUtilization) empty(e *emptying) {
	x := e.attempt(manner{})
	order := slices.DeleteFunc(e.sorted(orders[2]), func(row int32) bool { return fill(e.nodes[row], cluster.Resources{}) >= underutilized })
	for row := range int32(len(e.nodes)) {
		x.barred[row] = slices.Contains(order, row) || len(e.pods[row]) == 0 && e.rules.Kept(row) == ""
	}
	for _, row := range order {
		for _, i := range e.pods[row] {
			x.single(i)
		}
	}
	x.settle("its pods are not moved by this search")
}

func (r highNodeUtilization) lower(s *State, most int) []Change { return singly(s, r, most) }

// removeDuplicates is descheduler's rule of that name, for comparison: of an owner's pods, each node keeps no more than the mean over all
// nodes. The others move.
type removeDuplicates struct{}

func (removeDuplicates) empty(e *emptying) {
	x := e.attempt(manner{})
	owners := map[string][]int32{}
	for i := range e.all {
		if p := &e.all[i]; p.Row >= 0 && p.Owner != "" {
			owners[p.Owner] = append(owners[p.Owner], int32(i))
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		pods, has := owners[owner], make([]int, len(e.nodes))
		for _, i := range pods {
			has[e.all[i].Row]++
		}
		most := (len(pods) + len(e.nodes) - 1) / len(e.nodes)
		for _, i := range pods {
			from := e.all[i].Row
			for row, n := range has {
				x.barred[row] = n >= most || len(e.pods[row]) == 0
			}
			if has[from] > most && x.single(i) {
				has[from]--
				has[e.all[i].Row]++
			}
		}
	}
	clear(x.barred)
	x.settle("its pods are not moved by this search")
}

func (r removeDuplicates) lower(s *State, most int) []Change { return singly(s, r, most) }

// singly returns the moves of a search that looks at no cost.
func singly(s *State, by Searcher, most int) (out []Change) {
	if most <= 0 {
		return nil
	}
	e := newEmptying(s, Limits{Pods: most}, s.stop)
	by.empty(e)
	for _, m := range e.best.steps {
		c := Change{Moves: []cluster.Move{m}}
		c.By = s.move(c.Moves)
		s.cost += c.By
		out = append(out, c)
	}
	return out
}

// single moves a pod if it may move and a node takes it.
func (x *attempt) single(i int32) bool {
	l := x.limits
	if x.stop() || x.stays(i) != "" || l.Pods > 0 && len(x.steps) >= l.Pods ||
		l.Memory > 0 && x.memory()+x.all[i].Requests.Memory > l.Memory || !x.place(i) {
		return false
	}
	x.note(i)
	return true
}

// settle makes this the result: it notes which nodes have no pods any more, and takes the steps back.
func (x *attempt) settle(why string) {
	for row := range int32(len(x.nodes)) {
		switch {
		case x.rules.Kept(row) != "":
			x.why[row] = x.rules.Kept(row)
		case len(x.on[row]) > 0:
			x.why[row] = why
		case len(x.pods[row]) > 0:
			x.freed = append(x.freed, row)
		}
	}
	x.finish()
	x.best = x
}
