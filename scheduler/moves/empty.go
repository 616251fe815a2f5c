package moves

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
)

// Limits bound what the moves that empty nodes may cost.
type Limits struct {
	Pods   int   // that move; 0: any number
	Memory int64 // that the moved pods request, in bytes; 0: any amount
	Chains bool  // pods of nodes that stay in use may move too, to make room for others
	Worth  *Worth
}

// Worth weighs nodes against pods, in one unit. With it, a search looks for the moves of the highest sum, not for the most nodes.
type Worth struct {
	Nodes []float64 // by row: the gain if it becomes empty
	Pods  []float64 // by ID: the loss if it moves
}

// Step is a move of a pod, given by its ID, to a place that is free then.
type Step struct {
	cluster.Move
	After int // number of the step, from 1, that must have been made before; 0: none
}

// Emptied is the result of a search.
type Emptied struct {
	Steps []Step
	Freed []int32          // rows, in the order in which they become empty
	Why   map[int32]string // why the other rows with pods stay in use
	Bound int              // no more nodes can become empty
}

// emptying is a search for moves that empty nodes.
type emptying struct {
	*State
	limits   Limits
	progress func(done float64)
	home     []cluster.Move // by pod: where it is at first
	pods     [][]int32      // by row: the pods that are there at first, the largest first
	room     amounts        // that there are
	weights  []*amounts     // by row: that emptying it takes; nil if it stays in use
	bound    int            // of the nodes that can become empty
	best     *attempt
}

// Empty looks for the moves that empty most nodes, and leaves the state as it was. It ends early, with the best moves so far, if stop says
// so. progress gets the fraction of the work that is done.
func Empty(s *State, by Searcher, l Limits, stop func() bool, progress func(done float64)) Emptied {
	e := newEmptying(s, l, stop)
	e.progress = progress
	by.empty(e)
	x := e.best
	if x.order != nil {
		x = e.explained(x)
	}
	return Emptied{e.result(x.steps), x.freed, x.why, e.bound}
}

func newEmptying(s *State, l Limits, stop func() bool) *emptying {
	s.stop = stop
	e := &emptying{State: s, limits: l, progress: func(float64) {}}
	for i := range s.all {
		e.home = append(e.home, s.at(int32(i)))
	}
	for _, on := range s.on {
		on = slices.Clone(on)
		slices.SortFunc(on, func(i, j int32) int {
			a, b := &s.all[i], &s.all[j]
			return cmp.Or(cmp.Compare(b.Requests.Memory, a.Requests.Memory), cmp.Compare(b.Requests.MilliCPU, a.Requests.MilliCPU),
				cmp.Compare(a.Name, b.Name), cmp.Compare(i, j))
		})
		e.pods = append(e.pods, on)
	}
	e.weigh()
	e.bound = e.most()
	return e
}

// result returns the steps of an attempt with the pods' IDs.
func (e *emptying) result(steps []cluster.Move) []Step {
	steps = slices.Clone(steps)
	home := make([]int32, len(steps))
	for k := range steps {
		m := &steps[k]
		home[k], m.Pod = e.home[m.Pod].Row, e.all[m.Pod].ID
	}
	return Order(steps, home)
}

// Order returns moves as steps. A pod comes to a node after those that leave it. home has the row of each move's pod.
func Order(all []cluster.Move, home []int32) (out []Step) {
	left := map[int32]int{} // by row: number of the last step away from it
	for k, m := range all {
		out = append(out, Step{m, left[m.Row]})
		left[home[k]] = k + 1
	}
	return out
}

func (e *emptying) attempt(m strategy) *attempt {
	n := len(e.nodes)
	return &attempt{
		emptying: e, strategy: m, barred: make([]bool, n), takes: make([]bool, n), moved: make([]bool, len(e.all)), why: map[int32]string{},
	}
}

// try empties the nodes of a set together, and then others in an order. It reports whether that is better than all before. For a set,
// requests alone say at first where there is room, and the rules are asked at the end: most sets have no room.
func (e *emptying) try(m strategy) bool {
	for _, loose := range []bool{true, false} {
		if loose && m.set == nil {
			continue
		}
		x, spare := e.attempt(m), len(m.order)
		if x.loose = loose; e.best != nil && e.limits.Worth == nil {
			spare -= len(e.best.freed)
		}
		better := x.run(spare) && x.better(e.best)
		again := better && m.set != nil && !x.replays()
		if x.finish(); again {
			continue
		}
		if better {
			e.best = x
		}
		return better
	}
	return false
}

// explained makes an attempt again, and notes all reasons.
func (e *emptying) explained(x *attempt) *attempt {
	e.stop = never
	y := e.attempt(strategy{order: x.order[:x.tried], chains: x.chains})
	if y.explains = true; x.set != nil {
		y.given, y.chains, y.order = x, false, x.order
	}
	y.run(len(y.order))
	y.finish()
	for _, row := range x.order[y.tried:] {
		y.why[row] = x.why[row]
	}
	return y
}

// load is the movable load of a node.
type load struct {
	row    int32
	name   string
	pods   int
	memory int64
	share  float64
	size   float64 // largest fraction of all nodes' CPU or memory
	worth  float64 // for each fraction of all nodes' CPU or memory that its pods request
}

// orders are the orders in which nodes are tried first.
var orders = []func(a, b load) int{
	func(a, b load) int { return cmp.Or(cmp.Compare(a.pods, b.pods), cmp.Compare(a.memory, b.memory)) },
	func(a, b load) int { return cmp.Or(cmp.Compare(a.memory, b.memory), cmp.Compare(a.pods, b.pods)) },
	func(a, b load) int { return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.pods, b.pods)) },
}

// dearest is the order in which most is gained if only the room for the pods is short.
func dearest(a, b load) int { return cmp.Compare(b.worth, a.worth) }

// smallest is the order in which most nodes become empty if their pods fill the other nodes without a rest.
func smallest(a, b load) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.pods, b.pods)) }

// sorted returns the nodes with pods that need not stay in use.
func (e *emptying) sorted(order func(a, b load) int) []int32 {
	var loads []load
	var sum cluster.Resources
	for _, n := range e.nodes {
		sum = sum.Plus(n.Allocatable)
	}
	for k, n := range e.nodes {
		row := int32(k)
		if len(e.pods[row]) == 0 || e.rules.StaysInUse(row) != "" {
			continue
		}
		l := load{row: row, name: n.Name, pods: len(e.pods[row]), share: fill(n, cluster.Resources{})}
		l.size = fill(&cluster.Node{Allocatable: sum}, n.Allocatable)
		l.memory += each.Sum(e.pods[row], func(i int32) int64 { return e.all[i].Requests.Memory })
		l.worth = e.worth([]int32{row}) / fill(&cluster.Node{Allocatable: sum}, n.Requested)
		loads = append(loads, l)
	}
	slices.SortFunc(loads, func(a, b load) int { return cmp.Or(order(a, b), cmp.Compare(a.name, b.name)) })
	return each.Map(loads, func(l load) int32 { return l.row })
}

func (Greedy) empty(e *emptying) { e.greedy(0.99) }

// orders returns the orders in which nodes are tried first.
func (e *emptying) orders() []func(a, b load) int {
	if e.limits.Worth != nil {
		return append(slices.Clip(orders), dearest)
	}
	return orders
}

// greedy tries the usual orders. share is the fraction of the whole work.
func (e *emptying) greedy(share float64) {
	orders := e.orders()
	tries := len(orders)
	if e.limits.Chains {
		tries *= 2
	}
	for i := range tries {
		if i > 0 && e.stop() {
			return
		}
		e.progress(share * float64(i) / float64(tries))
		e.try(strategy{order: e.sorted(orders[i%len(orders)]), chains: i >= len(orders)})
	}
}

// patience is for how many pods' places the local search goes on without success.
const patience = 200_000

// The local search empties a set of nodes together: the largest pods get their places first, and smaller ones make room for them. It takes
// the first nodes of the usual orders and the smallest nodes, and then exchanges nodes of the best set, as long as it finds better ones.
func (Local) empty(e *emptying) {
	e.greedy(0.2)
	orders := e.orders()
	for i := range 2 * (len(orders) + 1) {
		m := strategy{order: e.sorted(append(orders, smallest)[i/2]), chains: e.limits.Chains, even: i%2 == 1}
		rows := slices.DeleteFunc(slices.Clone(m.order), func(row int32) bool { return e.weights[row] == nil || e.worth([]int32{row}) <= 0 })
		for more := true; more && !e.stop() && len(e.best.freed) < e.bound; {
			m.set = rows[:min(len(e.best.freed)+1, len(rows))]
			more = e.possible(m.set) && e.try(m)
		}
	}
	draw, m := rand.New(rand.NewPCG(1, 1)), strategy{order: e.sorted(smallest), chains: e.limits.Chains}
	tries := min(patience/max(len(e.all), 1), 200)
	for idle := 0; idle < tries && !e.stop(); idle++ {
		e.progress(0.2 + 0.8*float64(idle)/float64(tries))
		m.even = !m.even
		if m.set = e.varied(draw); m.set != nil && e.try(m) {
			idle = 0
		}
	}
}

// varied draws a set like the best one, of more nodes or of fewer pods, that may be possible; nil if it finds none.
func (e *emptying) varied(draw *rand.Rand) []int32 {
	var rest []int32
	for row, w := range e.weights {
		if w != nil && !slices.Contains(e.best.freed, int32(row)) {
			rest = append(rest, int32(row))
		}
	}
	for range 50 {
		set := slices.Clone(e.best.freed)
		in, out := 1+draw.IntN(3), draw.IntN(3)
		if in > len(rest) || out > len(set) || in < out || in == out && in == 0 {
			continue
		}
		draw.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		draw.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
		set = append(set[out:], rest[:in]...)
		if len(set) > e.bound || !e.possible(set) || !e.promises(set) {
			continue
		}
		slices.Sort(set)
		return set
	}
	return nil
}

// promises reports whether a set may be better than the best one.
func (e *emptying) promises(set []int32) bool {
	if e.limits.Worth != nil {
		return e.worth(set) > e.best.total()
	}
	return len(set) != len(e.best.freed) || e.count(set) < len(e.best.steps)
}

// worth returns the gain of nodes less the loss of their pods; the number of nodes if they all are worth the same.
func (e *emptying) worth(rows []int32) (sum float64) {
	w := e.limits.Worth
	if w == nil {
		return float64(len(rows))
	}
	for _, row := range rows {
		sum += w.Nodes[row]
		for _, i := range e.pods[row] {
			sum -= w.Pods[e.all[i].ID]
		}
	}
	return sum
}

// count returns the number of pods on nodes.
func (e *emptying) count(rows []int32) int {
	return each.Sum(rows, func(row int32) int { return len(e.pods[row]) })
}
