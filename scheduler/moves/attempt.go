package moves

import (
	"cmp"
	"fmt"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
)

// strategy says how to empty nodes.
type strategy struct {
	set    []int32
	order  []int32
	chains bool // pods of nodes that stay in use may make room for others
	even   bool // nodes are filled evenly, not the fullest first
}

// attempt empties a set of nodes together, and then others one after another. A node is emptied whole or left as it is.
type attempt struct {
	*emptying
	strategy
	given    *attempt         // whose steps come first
	loose    bool             // the rules are not asked whether a node takes a pod
	explains bool             // why needs all reasons
	barred   []bool           // by row: it takes no pods, because it is or becomes empty
	takes    []bool           // by row: it took a pod
	moved    []bool           // by pod
	steps    []cluster.Move   // of indices of pods, in their order
	freed    []int32          // rows
	why      map[int32]string // why rows stay in use
	tried    int              // rows of the order
}

// run tries to empty the nodes. It reports whether the set becomes empty, and ends early if more than spare nodes of the order fail.
func (x *attempt) run(spare int) bool {
	for row := range int32(len(x.nodes)) {
		if why := x.rules.StaysInUse(row); why != "" {
			x.why[row] = why
		} else if len(x.pods[row]) == 0 {
			x.barred[row] = true
		}
	}
	if !x.together() {
		return false
	}
	for _, row := range x.order {
		if slices.Contains(x.freed, row) {
			x.tried++
			continue
		}
		if x.stop() || spare < 0 {
			x.why[row] = "the time for the search was over"
			continue
		}
		x.tried++
		why := x.refuses(row)
		if why == "" && !x.explains && !x.possible(append(slices.Clip(x.freed), row)) {
			why = "there is no room for its pods"
		}
		if why == "" {
			why = x.drain([]int32{row}, x.pods[row])
		}
		if why != "" {
			x.why[row] = why
			spare--
		}
	}
	return true
}

// together moves all pods of the set, the largest first, and reports whether that is possible.
func (x *attempt) together() bool {
	if g := x.given; g != nil {
		for _, m := range g.steps {
			x.put(int32(m.Pod), m.Row, m.Devices)
			x.note(int32(m.Pod))
		}
		for _, row := range g.freed {
			x.barred[row] = true
		}
		x.freed, x.takes = slices.Clone(g.freed), g.takes
		return true
	}
	var pods []int32
	for _, row := range x.set {
		pods = append(pods, x.pods[row]...)
	}
	sum := &cluster.Node{}
	for _, n := range x.nodes {
		sum.Allocatable = sum.Allocatable.Plus(n.Allocatable)
	}
	slices.SortStableFunc(pods, func(i, j int32) int {
		return cmp.Compare(fill(sum, x.all[j].Requests), fill(sum, x.all[i].Requests))
	})
	return x.drain(x.set, pods) == ""
}

// exceeds reports whether the steps are more than the limits allow.
func (x *attempt) exceeds() bool {
	return x.limits.Pods > 0 && len(x.steps) > x.limits.Pods || x.limits.Memory > 0 && x.memory() > x.limits.Memory
}

// refuses returns why a node is not even tried.
func (x *attempt) refuses(row int32) string {
	var memory int64
	for _, i := range x.pods[row] {
		if why := x.stays(i); why != "" {
			return x.all[i].Name + ": " + why
		}
		memory += x.all[i].Requests.Memory
	}
	l, n := x.limits, len(x.pods[row])
	switch {
	case x.worth([]int32{row}) <= 0:
		return "its pods lose more than it costs"
	case x.takes[row]:
		return "it takes pods of nodes that become empty"
	case l.Pods > 0 && len(x.steps)+n > l.Pods:
		return fmt.Sprintf("%d pods would have to move, and %d of %d are left", n, l.Pods-len(x.steps), l.Pods)
	case l.Memory > 0 && x.memory()+memory > l.Memory:
		return "its pods request more memory than may still move"
	}
	return ""
}

func (x *attempt) stays(i int32) string { return x.rules.Stays(x.all[i].ID) }

// memory returns what the moved pods request.
func (x *attempt) memory() int64 {
	return each.Sum(x.steps, func(m cluster.Move) int64 { return x.all[m.Pod].Requests.Memory })
}

// drain moves the pods of nodes, or none; why describes the obstacle.
func (x *attempt) drain(rows, pods []int32) (why string) {
	before := slices.Clone(x.steps)
	for _, row := range rows {
		x.barred[row] = true
	}
	for _, i := range pods {
		if x.place(i) {
			x.note(i)
		} else if x.stop() || !x.exchange(i) {
			why = "no node takes it"
			if x.explains {
				why = x.all[i].Name + ": " + x.rules.Refusals(x.all[i].ID, x.barred)
			}
			break
		}
	}
	if why == "" && x.exceeds() {
		why = "with the pods that make room for its own, more would have to move than may"
	}
	if why != "" {
		x.restore(before)
		for _, row := range rows {
			x.barred[row] = false
		}
		return why
	}
	for _, m := range x.steps {
		x.takes[m.Row] = true
	}
	x.freed = append(x.freed, rows...)
	return ""
}

// note makes the place of a pod a step.
func (x *attempt) note(i int32) {
	x.moved[i], x.steps = true, append(x.steps, x.at(i))
}

// restore takes steps back, so that those of before are left.
func (x *attempt) restore(before []cluster.Move) {
	kept := make(map[int]bool, len(before))
	for _, m := range before {
		kept[m.Pod] = true
	}
	for _, m := range x.steps {
		if !kept[m.Pod] {
			x.moved[m.Pod] = false
			x.put(int32(m.Pod), x.home[m.Pod].Row, x.home[m.Pod].Devices)
		}
	}
	for _, m := range before {
		if x.all[m.Pod].Row != m.Row {
			x.put(int32(m.Pod), m.Row, m.Devices)
		}
	}
	x.steps = before
}

// finish takes all steps back, but keeps the list of them.
func (x *attempt) finish() {
	steps := x.steps
	x.restore(nil)
	x.steps = steps
}

// fill returns the requested fraction of a node, of CPU or memory, whichever is higher, with more on it.
func fill(n *cluster.Node, more cluster.Resources) float64 {
	r := n.Requested.Plus(more)
	return max(cluster.Fraction(r.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(r.Memory, n.Allocatable.Memory))
}

// rank returns how well a node is filled with more on it. Even prefers nodes that have CPU and memory left in equal shares.
func (x *attempt) rank(n *cluster.Node, more cluster.Resources) float64 {
	if !x.even {
		return fill(n, more)
	}
	r := n.Requested.Plus(more)
	cpu, memory := cluster.Fraction(r.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(r.Memory, n.Allocatable.Memory)
	return 2*min(cpu, memory) - max(cpu, memory)
}

// place moves a pod to the node of the highest rank that takes it. If none does, it stays.
func (x *attempt) place(i int32) bool {
	from, p := x.at(i), &x.all[i]
	x.put(i, nowhere, 0)
	var refused []int32
	for {
		best, most := int32(nowhere), 0.0
		for k, n := range x.nodes {
			row := int32(k)
			if x.barred[row] || n.Fit(p.Pod) != cluster.Fits || slices.Contains(refused, row) {
				continue
			}
			if full := x.rank(n, p.Requests); best < 0 || full > most || full == most && n.Name < x.nodes[best].Name {
				best, most = row, full
			}
		}
		if best < 0 {
			x.put(i, from.Row, from.Devices)
			return false
		}
		if x.accepts(i, best) {
			x.put(i, best, x.nodes[best].ChooseDevices(p.Requests))
			return true
		}
		refused = append(refused, best)
	}
}

// accepts reports whether the rules let a node take a pod that is on none.
func (x *attempt) accepts(i, row int32) bool {
	return x.loose || x.rules.Refusal(x.all[i].ID, row, x.barred) == ""
}

// maxExchanges is how many pods are tried as the one that makes room for another.
const maxExchanges = 24

// exchange moves a pod that no node takes to the place of another one, which goes elsewhere first. It reports whether there is such a pair.
func (x *attempt) exchange(i int32) bool {
	if !x.chains && x.set == nil {
		return false
	}
	from, p := x.at(i), &x.all[i]
	all := x.exchanges(i)
	for _, e := range all[:min(len(all), maxExchanges)] {
		there := x.at(e.pod)
		x.put(i, nowhere, 0)
		x.put(e.pod, nowhere, 0)
		if n := x.nodes[there.Row]; n.Fit(p.Pod) == cluster.Fits && x.accepts(i, there.Row) {
			x.put(i, there.Row, n.ChooseDevices(p.Requests))
			if x.place(e.pod) && x.all[e.pod].Row != there.Row {
				x.steps = slices.DeleteFunc(x.steps, func(m cluster.Move) bool { return m.Pod == int(e.pod) })
				x.note(e.pod)
				x.note(i)
				return true
			}
		}
		x.put(e.pod, there.Row, there.Devices)
		x.put(i, from.Row, from.Devices)
	}
	return false
}

// exchanged is a pod that may make room on its node.
type exchanged struct {
	pod  int32
	more float64 // fraction of the node that stays unused after it, of CPU or memory, whichever is higher
}

// exchanges returns the pods that would leave enough room for pod i, first those after which least of their node is unused.
func (x *attempt) exchanges(i int32) (out []exchanged) {
	need := x.all[i].Requests
	for row, n := range x.nodes {
		if x.barred[row] {
			continue
		}
		free := n.Free()
		for _, j := range x.on[row] {
			r := x.all[j].Requests
			rest := free.Plus(r)
			if !need.Within(rest) || need.Within(r) || !x.yields(j) || !x.fits(j, int32(row)) {
				continue // no room, or no gain
			}
			rest = rest.Minus(need)
			more := max(cluster.Fraction(rest.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(rest.Memory, n.Allocatable.Memory))
			out = append(out, exchanged{j, more})
		}
	}
	slices.SortFunc(out, func(a, b exchanged) int {
		return cmp.Or(cmp.Compare(a.more, b.more), cmp.Compare(x.all[a.pod].Name, x.all[b.pod].Name), cmp.Compare(a.pod, b.pod))
	})
	return out
}

// fits reports whether a node in use other than that of a row has room for a pod.
func (x *attempt) fits(i, but int32) bool {
	for row, n := range x.nodes {
		if !x.barred[row] && int32(row) != but && n.Fit(x.all[i].Pod) == cluster.Fits {
			return true
		}
	}
	return false
}

// yields reports whether a pod may make room for another. One that made room already may not.
func (x *attempt) yields(j int32) bool {
	if x.moved[j] {
		return x.set != nil && x.barred[x.home[j].Row]
	}
	return x.chains && x.stays(j) == ""
}

// replays reports whether all steps can be made in their order. A pod that moves may have found its place when another was elsewhere.
func (x *attempt) replays() bool {
	steps := slices.Clone(x.steps)
	x.restore(nil)
	for k := range steps {
		m := &steps[k]
		i, p, n := int32(m.Pod), &x.all[m.Pod], x.nodes[m.Row]
		x.put(i, nowhere, 0)
		if n.Fit(p.Pod) != cluster.Fits || x.rules.Refusal(p.ID, m.Row, x.barred) != "" {
			x.put(i, x.home[i].Row, x.home[i].Devices)
			x.restore(nil)
			return false
		}
		m.Devices = n.ChooseDevices(p.Requests)
		x.put(i, m.Row, m.Devices)
		x.note(i)
	}
	return true
}

// total returns the gain of the nodes that become empty less the loss of the pods that move.
func (x *attempt) total() float64 {
	w := x.limits.Worth
	if w == nil {
		return float64(len(x.freed))
	}
	return each.Sum(x.freed, func(row int32) float64 { return w.Nodes[row] }) -
		each.Sum(x.steps, func(m cluster.Move) float64 { return w.Pods[x.all[m.Pod].ID] })
}

// better reports whether an attempt found more than another, or the same for less.
func (x *attempt) better(than *attempt) bool {
	return than == nil || cmp.Or(cmp.Compare(x.total(), than.total()), cmp.Compare(len(x.freed), len(than.freed)),
		cmp.Compare(len(than.steps), len(x.steps)), cmp.Compare(than.memory(), x.memory())) > 0
}
