package moves

import (
	"cmp"
	"math"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
)

// Searcher is a search, for either goal: lower a cost, or empty nodes.
type Searcher interface {
	// lower makes steps that lower the cost, of at most so many moves in all, and returns them.
	lower(s *State, most int) []Change
	// empty tries orders of nodes.
	empty(e *emptying)
}

// Searchers are the searches by name, the usual one first.
var Searchers = []struct {
	Name string
	By   Searcher
}{{"local", Local{}}, {"greedy", Greedy{}}}

// Named returns the search of a name; "" is the usual one.
func Named(name string) (Searcher, error) {
	var names []string
	for _, s := range Searchers {
		if names = append(names, s.Name); s.Name == name || name == "" {
			return s.By, nil
		}
	}
	return nil, choice.Unknown("search", name, names)
}

// Change is moves that are made together. With rules they are possible one after another in their order.
type Change struct {
	Moves []cluster.Move
	By    float64 // by how much the cost rises
}

// least is the smallest reduction of the cost for which pods move. Rounding errors of a standard deviation near 0 are up to 1e-8.
const least = 3e-8

// Find makes changes that lower the cost, with at most so many moves in all, until none is found, the evaluations are used up, or stop says
// so. It returns them, with the pods' IDs. With rules, a pod moves once, and to another node.
func Find(s *State, by Searcher, most int, stop func() bool) []Change {
	s.stop = stop
	for i := range s.all {
		s.fixed[i] = s.all[i].Row < 0 || s.rules.Stays(s.all[i].ID) != ""
	}
	made := by.lower(s, most)
	for _, c := range made {
		for i := range c.Moves {
			c.Moves[i].Pod = s.all[c.Moves[i].Pod].ID
		}
	}
	return made
}

// descend makes the best of the changes that each call of next returns, as long as there is one that lowers the cost.
func (s *State) descend(most int, next func(most int) []Change) (made []Change) {
	for fresh := true; most > 0 && s.left > 0 && !s.stop(); {
		c, refused := s.take(next(most))
		if c == nil {
			if !refused && (fresh || !s.rough) {
				return made
			}
			for i := range s.changes { // what is known of nodes may be out of date
				s.changes[i]++
			}
			fresh = true
			continue
		}
		fresh = false
		most -= len(c.Moves)
		made = append(made, *c)
	}
	return made
}

// take makes the first change that lowers the cost; nil if none does. refused says that the rules refused one.
func (s *State) take(changes []Change) (made *Change, refused bool) {
	for _, x := range changes {
		back := s.where(x.Moves)
		if !s.permits(x.Moves) {
			refused = true
			s.move(back)
			continue
		}
		by := s.move(x.Moves)
		s.rough = s.rough || math.Abs(by-x.By) > least
		if by < -least {
			s.changed(x.Moves, back)
			return &Change{x.Moves, by}, refused
		}
		s.move(back)
	}
	return nil, refused
}

// permits makes moves one after another, if there are rules and these refuse none. One that is refused is not tried again.
func (s *State) permits(together []cluster.Move) bool {
	if s.rules == (free{}) {
		return true
	}
	for _, m := range together {
		i := int32(m.Pod)
		s.put(i, nowhere, 0)
		if s.rules.Refusal(s.all[i].ID, m.Row, nil) != "" {
			s.denied[[2]int32{s.shapes[i], m.Row}] = true
			return false
		}
		s.put(i, m.Row, m.Devices)
	}
	return true
}

// tried is how many of the best steps are tried if the best one does not lower the cost.
const tried = 16

// Greedy finds single moves, and empties nodes in a few orders, such as those with the fewest pods first.
type Greedy struct{}

func (Greedy) lower(s *State, most int) []Change {
	return s.descend(most, func(int) []Change { return s.singles(s.bestRows(2)) })
}

// singles returns the best single moves.
func (s *State) singles(to [][]int32) (out []Change) {
	worst := -least
	for i := range s.all {
		if s.fixed[i] || s.stop() {
			continue
		}
		l, p := s.leave(int32(i)), &s.all[i]
		row, place := p.Row, l.home
		if r, c := s.away(s.shapes[i], to, []int32{p.Row}); r >= 0 && l.by+c.by < place.by {
			row, place = r, c
			place.by += l.by
		}
		if place.by < worst {
			out = append(out, Change{[]cluster.Move{place.of(int32(i), row)}, place.by})
			if len(out) >= 4*tried {
				out = bestSteps(out)
				worst = out[len(out)-1].By
			}
		}
	}
	return bestSteps(out)
}

// bestSteps returns the changes that lower the cost most for each move, the best first.
func bestSteps(of []Change) []Change {
	slices.SortStableFunc(of, func(a, b Change) int { return cmp.Compare(a.By/float64(len(a.Moves)), b.By/float64(len(b.Moves))) })
	return of[:min(len(of), tried)]
}

// bestRows returns the best rows for each shape, the best first, at most so many.
func (s *State) bestRows(most int) [][]int32 {
	out := make([][]int32, len(s.kinds))
	for shape := 0; shape < len(out) && !s.stop(); shape++ {
		var best []int32
		for row := range int32(len(s.nodes)) {
			by := s.come(int32(shape), row).by
			if math.IsInf(by, 1) || len(best) == most && by >= s.coming[shape][best[most-1]].by {
				continue
			}
			at := len(best)
			for at > 0 && by < s.coming[shape][best[at-1]].by {
				at--
			}
			best = slices.Insert(best[:min(len(best), most-1)], min(at, most-1), row)
		}
		out[shape] = best
	}
	return out
}

// amounts are CPU, memory, GPUs and pods that have to fit on the nodes that stay in use, and then pods and memory that move.
type amounts [6]int64

func amountsOf(r cluster.Resources) amounts {
	return amounts{r.MilliCPU, r.Memory, r.TotalGPUMilli(), r.Pods, r.Pods, r.Memory}
}

// weigh finds what bounds a search. What the pods of the emptied nodes request has to fit on the other nodes in use. So for each
// resource, what those pods request, and what the emptied nodes have free, is together no more than what all nodes in use have free. The
// same goes for the limits of the moves.
func (e *emptying) weigh() {
	e.weights, e.room = make([]*amounts, len(e.nodes)), amounts{4: math.MaxInt64, 5: math.MaxInt64}
	if e.limits.Pods > 0 {
		e.room[4] = int64(e.limits.Pods)
	}
	if e.limits.Memory > 0 {
		e.room[5] = e.limits.Memory
	}
	for k, n := range e.nodes {
		row, stays := int32(k), e.rules.Kept(int32(k)) != ""
		if len(e.pods[row]) == 0 && !stays {
			continue
		}
		free, closed := amountsOf(n.Free()), !slices.ContainsFunc(e.kinds, func(i int32) bool { return n.Admits(e.all[i].Tolerations) })
		for d := range 4 {
			if free[d] = max(free[d], 0); closed {
				free[d] = 0 // it takes no pod
			}
			e.room[d] += free[d]
		}
		var sum cluster.Resources
		for _, i := range e.pods[row] {
			sum, stays = sum.Plus(e.all[i].Requests), stays || e.rules.Stays(e.all[i].ID) != ""
		}
		if stays {
			continue
		}
		w := amountsOf(sum)
		for d := range 4 {
			if w[d] > 0 { // a pod that requests nothing of a resource fits where none is left
				w[d] += free[d]
			}
		}
		e.weights[row] = &w
	}
}

// possible reports whether nothing of this is in the way of emptying nodes.
func (e *emptying) possible(rows []int32) bool {
	left := e.room
	for _, row := range rows {
		for d, w := range e.weights[row] {
			left[d] -= w
		}
	}
	return slices.Min(left[:]) >= 0
}

// most returns a number of nodes of which no search can empty more: for each amount, of the nodes with the least.
func (e *emptying) most() int {
	most := len(e.nodes)
	for d, left := range e.room {
		var all []int64
		for _, w := range e.weights {
			if w != nil {
				all = append(all, w[d])
			}
		}
		slices.Sort(all)
		n := 0
		for ; n < len(all) && all[n] <= left; n++ {
			left -= all[n]
		}
		most = min(most, n)
	}
	return most
}
