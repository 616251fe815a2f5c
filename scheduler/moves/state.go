package moves

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/objective"
)

// Pod is a pod that runs, or waits for a node. ID is the caller's.
type Pod struct {
	*cluster.Pod
	ID      int
	Name    string            // orders equal pods
	Row     int32             // of its node; negative if it waits
	Devices cluster.DeviceSet // of that node
}

// nowhere is the row of a pod without a node.
const nowhere = -1

// Rules say where pods may run beyond what nodes and requests say. Pods are given by their IDs.
type Rules interface {
	// Stays returns why a pod may not move; "" if it may.
	Stays(pod int) string
	// StaysInUse returns why a node stays in use even without pods; "" if it does not.
	StaysInUse(row int32) string
	// Refusal returns why a node does not take a pod that is on no node; "" if it takes it. Rows that are barred are cordoned.
	Refusal(pod int, row int32, barred []bool) string
	// Refusals says why no node takes a pod, but for those that are barred.
	Refusals(pod int, barred []bool) string
	// Moved is called when a pod comes to a node, or leaves it for none.
	Moved(to cluster.Move)
}

// free are the rules where requests decide alone.
type free struct{}

func (free) Stays(int) string                  { return "" }
func (free) StaysInUse(int32) string           { return "" }
func (free) Refusal(int, int32, []bool) string { return "" }
func (free) Refusals(int, []bool) string       { return "" }
func (free) Moved(cluster.Move)                {}

// State is the nodes and pods of a search.
type State struct {
	nodes   []*cluster.Node
	all     []Pod
	on      [][]int32 // by row: indices of its pods
	shapes  []int32   // by pod
	kinds   []int32   // by shape: one of its pods
	tracker objective.Tracker
	cost    float64
	rules   Rules
	left    int               // evaluations
	stop    func() bool       // ends the search
	rough   bool              // estimates are not exact
	fixed   []bool            // by pod: it does not move
	denied  map[[2]int32]bool // shapes and rows that the rules refused

	changes []int32   // by row: how often its pods have changed
	leaving []leaving // by pod
	coming  [][]place // by shape and row
	drains  []drained // by row
	ejected [][]place // by shape, if one of its pods may take the place of another, and by that other pod
}

// place is the best place on a node for a pod of a shape.
type place struct {
	at int32             // State.changes for which this is known, plus 1
	on cluster.DeviceSet // devices
	by float64           // by how much the cost rises; +Inf if it does not fit
}

// of returns the move of a pod to the place.
func (p place) of(i, row int32) cluster.Move {
	return cluster.Move{Pod: int(i), Row: row, Devices: p.on}
}

// leaving says what happens when a pod leaves.
type leaving struct {
	at   int32
	by   float64 // by how much the cost rises
	home place   // on other devices of the same node, after it has left
}

// Config says how to search.
type Config struct {
	Evaluations int                                     // of the cost, at most
	Track       func([]*cluster.Node) objective.Tracker // of the cost
	Rules       Rules                                   // nil: requests decide alone
}

// New returns the state of a search. It copies the nodes. Pods with MIG partitions stay, as if they were not there.
func New(nodes []*cluster.Node, pods []Pod, c Config) *State {
	s := &State{left: c.Evaluations, rules: c.Rules, denied: map[[2]int32]bool{}, on: make([][]int32, len(nodes)),
		changes: make([]int32, len(nodes))}
	if s.rules == nil {
		s.rules = free{}
	}
	for _, n := range nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		s.nodes = append(s.nodes, &c)
	}
	type shape struct {
		requests cluster.Resources
		needs    string
	}
	numbers := map[shape]int32{}
	for _, p := range pods {
		if p.Partition != mig.None {
			continue
		}
		key := shape{requests: p.Requests}
		if len(p.GPUModels)+len(p.NodeSelector)+len(p.NodeAffinity)+len(p.Tolerations) > 0 {
			key.needs = fmt.Sprintf("%q %q %q %s", p.GPUModels, p.NodeSelector, p.NodeAffinity, cluster.TolerationsKey(p.Tolerations))
		}
		if c.Rules != nil { // they may treat owners differently
			key.needs += p.Owner
		}
		number, known := numbers[key]
		if !known {
			number = int32(len(s.kinds))
			numbers[key], s.kinds = number, append(s.kinds, int32(len(s.all)))
		}
		if p.Row >= 0 {
			s.on[p.Row] = append(s.on[p.Row], int32(len(s.all)))
		}
		s.all, s.shapes = append(s.all, p), append(s.shapes, number)
	}
	s.fixed = make([]bool, len(s.all))
	s.leaving, s.coming = make([]leaving, len(s.all)), make([][]place, len(s.kinds))
	s.drains, s.ejected = make([]drained, len(nodes)), make([][]place, len(s.kinds))
	for i := range s.coming {
		s.coming[i] = make([]place, len(nodes))
	}
	s.tracker = c.Track(s.nodes)
	s.cost = s.tracker.Cost()
	return s
}

// Cost returns the cost.
func (s *State) Cost() float64 { return s.cost }

// evaluate returns by how much the cost is higher now.
func (s *State) evaluate() float64 {
	s.left--
	return s.tracker.Cost() - s.cost
}

func (s *State) add(row int32, r cluster.Resources, on cluster.DeviceSet) {
	s.nodes[row].AddOn(r, on)
	s.tracker.Update(int(row))
}

func (s *State) remove(row int32, r cluster.Resources, on cluster.DeviceSet) {
	s.nodes[row].Remove(r, on)
	s.tracker.Update(int(row))
}

// best returns the best place for a pod on the node as it is now, on other devices than those that are not allowed. By
// is the whole difference of the cost.
func (s *State) best(row, i int32, not cluster.DeviceSet) place {
	n, r := s.nodes[row], s.all[i].Requests
	out := place{by: math.Inf(1)}
	if n.Fit(s.all[i].Pod) != cluster.Fits || s.denied[[2]int32{s.shapes[i], row}] {
		return out
	}
	try := func(on cluster.DeviceSet) {
		s.add(row, r, on)
		if by := s.evaluate(); by < out.by {
			out.on, out.by = on, by
		}
		n.Remove(r, on)
	}
	defer s.tracker.Update(int(row))
	if r.GPUMilli == 0 || !n.HasDevices() {
		if on := n.ChooseDevices(r); on != not || on == 0 && not == 0 {
			try(on)
		}
		return out
	}
	for rest := n.DistinctDevices(r.GPUMilli) &^ not; rest != 0; rest &= rest - 1 {
		try(cluster.Device(bits.TrailingZeros64(uint64(rest))))
	}
	return out
}

// come returns the best place for a pod of a shape on the node of a row.
func (s *State) come(shape, row int32) *place {
	p := &s.coming[shape][row]
	if p.at != s.changes[row]+1 {
		*p = s.best(row, s.kinds[shape], 0)
		p.at = s.changes[row] + 1
	}
	return p
}

// leave returns what happens when a pod leaves.
func (s *State) leave(i int32) *leaving {
	l := &s.leaving[i]
	p := &s.all[i]
	if l.at != s.changes[p.Row]+1 {
		s.remove(p.Row, p.Requests, p.Devices)
		*l = leaving{at: s.changes[p.Row] + 1, by: s.evaluate(), home: place{by: math.Inf(1)}}
		if p.Requests.GPUMilli > 0 && s.rules == (free{}) {
			l.home = s.best(p.Row, i, p.Devices)
		}
		s.add(p.Row, p.Requests, p.Devices)
	}
	return l
}

// move makes moves together, and returns by how much the cost rises. The moves have pods' indices.
func (s *State) move(together []cluster.Move) float64 {
	for _, m := range together {
		s.put(int32(m.Pod), nowhere, 0)
	}
	for _, m := range together {
		s.put(int32(m.Pod), m.Row, m.Devices)
	}
	return s.evaluate()
}

// put moves a pod, and forgets what depended on its row.
func (s *State) put(i, row int32, on cluster.DeviceSet) {
	p := &s.all[i]
	if old := p.Row; old >= 0 {
		at := slices.Index(s.on[old], i)
		s.on[old] = slices.Delete(s.on[old], at, at+1)
		s.remove(old, p.Requests, p.Devices)
	}
	p.Row, p.Devices = row, on
	if row >= 0 {
		s.on[row] = append(s.on[row], i)
		s.add(row, p.Requests, on)
	}
	s.rules.Moved(cluster.Move{Pod: p.ID, Row: row, Devices: on})
	s.leaving[i].at = 0
	for _, of := range s.ejected {
		if of != nil {
			of[i].at = 0
		}
	}
}

// at returns the move to where a pod is.
func (s *State) at(i int32) cluster.Move {
	return cluster.Move{Pod: int(i), Row: s.all[i].Row, Devices: s.all[i].Devices}
}

// changed says that a step was made.
func (s *State) changed(together, back []cluster.Move) {
	for _, m := range slices.Concat(together, back) {
		s.changes[m.Row]++
	}
	for _, m := range together {
		s.fixed[m.Pod] = s.rules != (free{})
	}
	s.cost = s.tracker.Cost()
}

// never ends no search.
func never() bool { return false }

// MakeRoom looks for the moves that make room for a waiting pod: those on one node, of the fewest pods with the least memory, within the
// limits. On each node the largest pods stay that fit beside the pod; the others go to the fullest nodes that take them. No pod makes room
// for a pod that makes room. It leaves the state as it was. If there are no such moves, the row is negative, and reasons counts why.
func MakeRoom(s *State, pod int, l Limits, progress func(done float64)) (steps []Step, row int32, reasons map[string]int) {
	e := newEmptying(s, l, never)
	row, reasons = nowhere, map[string]int{}
	for k := range int32(len(s.nodes)) {
		progress(float64(k) / float64(len(s.nodes)))
		x := e.attempt(strategy{})
		x.barred[k] = true
		if why := x.clear(k, int32(pod)); why != "" {
			reasons[why]++
		} else if x.better(e.best) {
			e.best, row = x, k
		}
	}
	if row < 0 {
		return nil, row, reasons
	}
	return e.result(e.best.steps), row, reasons
}

// clear finds the moves that make room on a node, as steps, and undoes them. why describes the obstacle.
func (x *attempt) clear(row, waits int32) (why string) {
	var off []int32 // the node, for now
	for _, i := range x.pods[row] {
		if x.stays(i) == "" {
			off = append(off, i)
			x.put(i, nowhere, 0)
		}
	}
	defer func() {
		for _, i := range append(off, waits) {
			x.put(i, x.home[i].Row, x.home[i].Devices)
		}
	}()
	if why := x.rules.Refusal(x.all[waits].ID, row, nil); why != "" {
		return why
	}
	x.put(waits, row, x.nodes[row].ChooseDevices(x.all[waits].Requests))
	for _, i := range off {
		p, on := &x.all[i], x.home[i].Devices
		if n := x.nodes[row]; (on == 0 || n.FitsOn(p.Requests, on)) && x.rules.Refusal(p.ID, row, nil) == "" {
			x.put(i, row, on)
			continue
		}
		if !x.place(i) {
			return "has a pod that must go, and " + x.rules.Refusals(p.ID, x.barred)
		}
		x.note(i)
	}
	if x.exceeds() {
		return "needs more moves than the limits allow"
	}
	return ""
}
