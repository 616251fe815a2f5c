package moves

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
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
		back := each.Map(x.Moves, func(m cluster.Move) cluster.Move { return s.at(int32(m.Pod)) })
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
		row, stays := int32(k), e.rules.StaysInUse(int32(k)) != ""
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

// Local also finds steps of several moves, where a single move may raise the cost: draining a node, swapping two pods, and ejection chains,
// where a pod takes the place of another, which goes to a third node. The best step lowers the cost most per move.
type Local struct{}

const (
	deepest = 16 // pods that leave a node together
	ejects  = 8  // shapes of pods that take the places of others
)

func (Local) lower(s *State, most int) []Change { return s.descend(most, s.together) }

// together returns the best steps of at most so many moves.
func (s *State) together(most int) (out []Change) {
	to := s.bestRows(deepest + 2)
	for row := range int32(len(s.nodes)) {
		if s.stop() {
			return bestSteps(out)
		}
		if x := s.drain(row, most, to); x.By < -least {
			out = append(out, x)
		}
	}
	out = append(out, s.singles(to)...)
	if most > 1 {
		for _, i := range s.eager() {
			if s.stop() {
				break
			}
			if x := s.eject(i, to); x.By < -least {
				out = append(out, x)
			}
		}
	}
	return bestSteps(out)
}

// drained is an order in which the pods of a node leave it.
type drained struct {
	at   int32
	pods []int32
	by   []float64 // by how much the cost rises in all, after each
}

// drain returns the best of the steps in which the first pods of that order leave.
func (s *State) drain(row int32, most int, to [][]int32) (best Change) {
	d := &s.drains[row]
	if d.at != s.changes[row]+1 {
		*d = drained{at: s.changes[row] + 1}
		s.order(d, row, to)
	}
	taken := []int32{row}
	var together []cluster.Move
	var sum float64
	for k, i := range d.pods[:min(len(d.pods), most)] {
		r, c := s.away(s.shapes[i], to, taken)
		if r < 0 {
			r, c = s.beside(i, together)
		}
		if r < 0 {
			break
		}
		taken, together = append(taken, r), append(together, c.of(i, r))
		if sum += c.by; (d.by[k]+sum)/float64(k+1)*float64(max(len(best.Moves), 1)) < best.By {
			best = Change{slices.Clone(together), d.by[k] + sum}
		}
	}
	return best
}

// order finds the order in which pods leave a node: at each time the pod for which the cost rises least.
func (s *State) order(d *drained, row int32, to [][]int32) {
	rest := slices.DeleteFunc(slices.Clone(s.on[row]), func(i int32) bool { return s.fixed[i] })
	for len(rest) > 0 && len(d.pods) < deepest {
		next, least, by := -1, math.Inf(1), 0.0
		for k, i := range rest {
			p := &s.all[i]
			s.remove(row, p.Requests, p.Devices)
			rise := s.evaluate()
			if _, c := s.away(s.shapes[i], to, []int32{row}); rise+c.by < least {
				next, least, by = k, rise+c.by, rise
			}
			s.add(row, p.Requests, p.Devices)
		}
		if next < 0 {
			break
		}
		i := rest[next]
		s.remove(row, s.all[i].Requests, s.all[i].Devices)
		d.pods, d.by, rest = append(d.pods, i), append(d.by, by), slices.Delete(rest, next, next+1)
	}
	for _, i := range d.pods {
		s.add(row, s.all[i].Requests, s.all[i].Devices)
	}
}

// away returns the best place for a shape on another row than those taken; -1 if there is none.
func (s *State) away(shape int32, to [][]int32, taken []int32) (int32, place) {
	for _, r := range to[shape] {
		if !slices.Contains(taken, r) {
			return r, *s.come(shape, r)
		}
	}
	return -1, place{by: math.Inf(1)}
}

// beside returns the best place for a pod on the nodes to which others go; -1 if there is none.
func (s *State) beside(i int32, others []cluster.Move) (row int32, best place) {
	row, best.by = -1, math.Inf(1)
	for _, m := range others {
		s.add(m.Row, s.all[m.Pod].Requests, m.Devices)
	}
	before := s.evaluate()
	for _, m := range others {
		if c := s.best(m.Row, i, 0); c.by < best.by {
			row, best = m.Row, c
		}
	}
	for _, m := range others {
		s.remove(m.Row, s.all[m.Pod].Requests, m.Devices)
	}
	best.by -= before
	return row, best
}

// eager returns pods of different shapes whose leaving lowers the cost most.
func (s *State) eager() []int32 {
	first := make([]int32, 0, len(s.kinds))
	seen := make([]int, len(s.kinds)) // index in first, plus 1
	for i := range int32(len(s.all)) {
		if s.fixed[i] {
			continue
		}
		switch at := seen[s.shapes[i]]; {
		case at == 0:
			first = append(first, i)
			seen[s.shapes[i]] = len(first)
		case s.leave(i).by < s.leave(first[at-1]).by:
			first[at-1] = i
		}
	}
	slices.SortStableFunc(first, func(a, b int32) int { return cmp.Compare(s.leave(a).by, s.leave(b).by) })
	return first[:min(len(first), ejects)]
}

// instead returns the best place for a pod where another one runs.
func (s *State) instead(i int32, q *Pod) place {
	n, p := s.nodes[q.Row], &s.all[i]
	if !p.Requests.Within(n.Free().Plus(q.Requests)) {
		return place{by: math.Inf(1)}
	}
	n.Remove(q.Requests, q.Devices)
	out := s.best(q.Row, i, 0)
	s.add(q.Row, q.Requests, q.Devices)
	return out
}

// eject returns the best step in which a pod takes the place of another.
func (s *State) eject(i int32, to [][]int32) (best Change) {
	p, shape := &s.all[i], s.shapes[i]
	if s.ejected[shape] == nil {
		s.ejected[shape] = make([]place, len(s.all))
	}
	s.remove(p.Row, p.Requests, p.Devices)
	left := s.evaluate()
	swapped := make([]place, len(s.kinds)) // by shape: the place that the pod has left
	for k, of := range s.kinds {
		swapped[k] = s.best(p.Row, of, 0)
		swapped[k].by -= left
	}
	for j := range int32(len(s.all)) {
		q, kind := &s.all[j], s.shapes[j]
		if q.Row == p.Row || kind == shape || s.fixed[j] {
			continue
		}
		in := &s.ejected[shape][j]
		if in.at != s.changes[q.Row]+1 {
			*in = s.instead(i, q)
			in.by -= left
			in.at = s.changes[q.Row] + 1
		}
		r, c := p.Row, swapped[kind]
		if s.rules != (free{}) { // neither of two pods can go first
			c.by = math.Inf(1)
		}
		if row, other := s.away(kind, to, []int32{p.Row, q.Row}); row >= 0 && other.by < c.by {
			r, c = row, other
		}
		if by := left + in.by + c.by; by < best.By {
			best = Change{[]cluster.Move{in.of(i, q.Row), c.of(j, r)}, by}
			if s.rules != (free{}) { // which are asked for one move after another: the pod that makes room goes first
				slices.Reverse(best.Moves)
			}
		}
	}
	s.add(p.Row, p.Requests, p.Devices)
	return best
}

// Fragmentation returns a tracker of a mix, plus the share of the GPUs that is idle and of no use to typical pods (package fragmentation).
func Fragmentation(mix objective.Mix, typical *fragmentation.Typical, nodes []*cluster.Node) objective.Tracker {
	t := &fragments{Tracker: mix.Track(nodes), typical: typical, nodes: nodes, of: make([]float64, len(nodes))}
	for i, n := range nodes {
		t.all += float64(n.Allocatable.TotalGPUMilli())
		t.update(i)
	}
	return t
}

// Objective is a cost that moves lower: a mix of terms, and with GPUs the one of Fragmentation.
type Objective struct {
	objective.Mix
	GPUs bool
}

// gpus names Fragmentation in an objective.
const gpus = "gpu-fragmentation"

// ParseObjective reads a mix, of which gpu-fragmentation may be a part.
func ParseObjective(text string) (o Objective, err error) {
	terms := slices.DeleteFunc(strings.Split(text, ","), func(part string) bool { return part == gpus })
	if o.GPUs = len(terms) < strings.Count(text, ",")+1; len(terms) > 0 {
		o.Mix, err = objective.Parse(strings.Join(terms, ","))
	}
	if err == nil {
		err = o.Mix.NoQueue()
	}
	for _, w := range o.Mix {
		if objective.Measured(w.Term) {
			return o, fmt.Errorf("%s is measured after a move, not before it", w.Term.Name())
		}
	}
	return o, err
}

// Name returns the text that ParseObjective reads.
func (o Objective) Name() string {
	if o.GPUs {
		return strings.TrimPrefix(o.Mix.Name()+","+gpus, ",")
	}
	return o.Mix.Name()
}

// Track returns a tracker of the cost.
func (o Objective) Track(typical *fragmentation.Typical, nodes []*cluster.Node) objective.Tracker {
	if o.GPUs {
		return Fragmentation(o.Mix, typical, nodes)
	}
	return o.Mix.Track(nodes)
}

// fragments keeps the fragmentation of each node, in thousandths of a device.
type fragments struct {
	objective.Tracker
	typical  *fragmentation.Typical
	nodes    []*cluster.Node
	of       []float64
	sum, all float64
}

// Update implements objective.Tracker.
func (t *fragments) Update(i int) {
	t.Tracker.Update(i)
	t.update(i)
}

func (t *fragments) update(i int) {
	if t.nodes[i].HasDevices() {
		f := t.typical.Fragmentation(t.nodes[i])
		t.sum += f - t.of[i]
		t.of[i] = f
	}
}

// Cost implements objective.Tracker.
func (t *fragments) Cost() float64 { return t.Tracker.Cost() + t.sum/max(t.all, 1) }
