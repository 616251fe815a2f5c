package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
)

// Limits bound what moves may cost.
type Limits struct {
	Pods   int   // that move; 0: any number
	Memory int64 // that the moved pods request, in bytes; 0: any amount
	// EmptyDirs lets pods move that lose the data of their emptyDir volumes.
	EmptyDirs bool
	// Priority is the highest of a pod that moves; nil: any.
	Priority *int32
	// Chains lets pods of nodes that stay in use move, to make room for others. kubectl drain does not move it.
	Chains bool
	// Age is how long a pod must have run to move.
	Age time.Duration
}

// Moves is a list of moves and their effect.
type Moves struct {
	Nodes   int       `json:"nodes"` // of the cluster
	Empty   []string  `json:"empty"` // nodes that are empty before any move
	Freed   []string  `json:"freed"` // nodes that the moves empty
	Rounds  int       `json:"rounds"`
	Moves   []Move    `json:"moves"` // in their order
	Stay    []Blocked `json:"stay"`  // nodes that stay in use
	Waiting int       `json:"waiting"`
	Room    *Place    `json:"room,omitempty"` // what the moves make room for
	// Commands carry out the moves. As printed, kubectl only does a dry run.
	Commands []string `json:"commands"`
	Notes    []string `json:"notes,omitempty"`
}

// Place is a node for a pod that waits.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// Move is a pod that moves. The moves of a round may be made together. The next round begins when the pods of this one run.
type Move struct {
	Round  int    `json:"round"`
	Pod    string `json:"pod"`
	UID    string `json:"uid"`
	Memory int64  `json:"memory"`
	From   string `json:"from"`
	To     string `json:"to"`
	Budget string `json:"budget,omitempty"` // the PodDisruptionBudget that covers it
	Loses  string `json:"loses,omitempty"`  // data that the pod loses
}

// Blocked is a node that stays in use.
type Blocked struct {
	Node string `json:"node"`
	Pods int    `json:"pods"` // without pods that belong to the node
	Why  string `json:"why"`
}

// step is a move within a search.
type step struct {
	pod   *v1.Pod // on its old node
	to    string
	after int // number of the step, from 1, that must have been made before; 0: none
}

// search is one attempt, with the nodes in one order.
type search struct {
	*State
	limits Limits
	chains bool                 // whether pods may make room for others
	pods   map[string][]*v1.Pod // that do not belong to their node, by node, as at the beginning
	barred map[string]bool      // nodes that take no pods, because they are or become empty
	takes  map[string]bool      // nodes that took a pod
	steps  []step
	freed  []string
	why    map[string]string // why nodes stay
	memory int64             // of the steps
}

// orders are the orders in which nodes are tried.
var orders = []func(a, b load) int{
	func(a, b load) int { return cmp.Or(cmp.Compare(a.pods, b.pods), cmp.Compare(a.memory, b.memory)) },
	func(a, b load) int { return cmp.Or(cmp.Compare(a.memory, b.memory), cmp.Compare(a.pods, b.pods)) },
	func(a, b load) int { return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.pods, b.pods)) },
}

// load is the movable load of a node.
type load struct {
	name   string
	pods   int
	memory int64
	share  float64
	kept   string // why the node stays in use even without any pod; "" if it does not
}

// Find looks for the moves that empty most nodes within the limits. It restores the cluster at the end. progress gets the fraction of the
// work that is done.
func Find(ctx context.Context, s *State, l Limits, progress func(done float64)) (Moves, error) {
	nodes, err := s.cluster.Nodes()
	if err != nil {
		return Moves{}, err
	}
	pods := s.byNode()
	loads := make([]load, 0, len(nodes))
	for _, n := range nodes {
		loads = append(loads, s.loadOf(n, pods[n.Name]))
	}
	var best *search
	tries := len(orders)
	if l.Chains {
		tries *= 2
	}
	for i := range tries {
		order := orders[i%len(orders)]
		slices.SortFunc(loads, func(a, b load) int { return cmp.Or(order(a, b), cmp.Compare(a.name, b.name)) })
		x := &search{
			State: s, limits: l, chains: i >= len(orders), pods: pods, barred: map[string]bool{}, takes: map[string]bool{}, why: map[string]string{},
		}
		err := x.run(ctx, loads, func(done float64) { progress((float64(i) + done) / float64(tries)) })
		x.undo(0)
		if err != nil {
			return Moves{}, err
		}
		if best == nil || x.better(best) {
			best = x
		}
	}
	return best.result(ctx, nodes)
}

// byNode returns the pods that do not belong to their node, by node, the largest first.
func (s *State) byNode() map[string][]*v1.Pod {
	out := map[string][]*v1.Pod{}
	for uid, p := range s.cluster.Running {
		if !s.own[uid] {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], p)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *v1.Pod) int {
			x, y := kube.Requests(a), kube.Requests(b)
			return cmp.Or(cmp.Compare(y.Memory, x.Memory), cmp.Compare(y.MilliCPU, x.MilliCPU), cmp.Compare(nameOf(a), nameOf(b)),
				cmp.Compare(a.UID, b.UID))
		})
	}
	return out
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// controlPlane is the label of control-plane nodes.
const controlPlane = "node-role.kubernetes.io/control-plane"

func (s *State) loadOf(n *values.Node, pods []*v1.Pod) load {
	out := load{name: n.Name, pods: len(pods), share: fill(n, values.Resources{}), kept: s.kept[n.Name]}
	for _, p := range pods {
		out.memory += kube.Requests(p).Memory
	}
	return out
}

// fill returns the requested fraction of a node, of CPU or memory, whichever is higher, with more on it.
func fill(n *values.Node, more values.Resources) float64 {
	r := n.Requested.Plus(more)
	return max(values.Fraction(r.MilliCPU, n.Allocatable.MilliCPU), values.Fraction(r.Memory, n.Allocatable.Memory))
}

// run tries to empty the nodes, one after another.
func (x *search) run(ctx context.Context, loads []load, progress func(float64)) error {
	for _, l := range loads {
		if l.pods == 0 && l.kept == "" {
			x.barred[l.name] = true
		}
	}
	for i, l := range loads {
		progress(float64(i) / float64(len(loads)))
		if l.kept != "" {
			x.why[l.name] = l.kept
			continue
		}
		if l.pods == 0 {
			continue
		}
		why := x.refuses(l)
		if why == "" {
			var err error
			if why, err = x.drain(ctx, l); err != nil {
				return err
			}
		}
		if why != "" {
			x.why[l.name] = why
		}
	}
	return nil
}

// refuses returns why a node is not even tried.
func (x *search) refuses(l load) string {
	for _, p := range x.pods[l.name] {
		if why := x.keeps(p); why != "" {
			return nameOf(p) + ": " + why
		}
	}
	if x.takes[l.name] {
		return "it takes pods of nodes that become empty"
	}
	if n := len(x.steps) + l.pods; x.limits.Pods > 0 && n > x.limits.Pods {
		return fmt.Sprintf("%d pods would have to move, and %d of %d are left", l.pods, x.limits.Pods-len(x.steps), x.limits.Pods)
	}
	if n := x.memory + l.memory; x.limits.Memory > 0 && n > x.limits.Memory {
		return "its pods request more memory than may still move"
	}
	return ""
}

// keeps returns why a pod may not be moved; "" if it may.
func (x *search) keeps(p *v1.Pod) string { return cmp.Or(x.forbids(p), x.spent[p.UID]) }

// forbids returns why a pod may not be moved, whatever its budget allows at present.
func (x *search) forbids(p *v1.Pod) string {
	l := x.limits
	switch age := time.UnixMilli(x.at).Sub(p.Status.StartTime.Time); {
	case x.stays[p.UID] != "":
		return x.stays[p.UID]
	case x.empties[p.UID] && !l.EmptyDirs:
		return "its emptyDir volumes would lose their data; --delete-emptydir-data allows that"
	case l.Priority != nil && p.Spec.Priority != nil && *p.Spec.Priority > *l.Priority:
		return fmt.Sprintf("its priority is %d, over the limit of %d", *p.Spec.Priority, *l.Priority)
	case age < l.Age:
		return fmt.Sprintf("it has run for %v, less than %v", age.Round(time.Second), l.Age)
	}
	return ""
}

// drain moves all pods of a node, or none; why describes the obstacle.
func (x *search) drain(ctx context.Context, l load) (why string, err error) {
	began := len(x.steps)
	x.barred[l.name] = true
	for _, p := range x.pods[l.name] {
		to, why, err := x.place(ctx, p)
		if err != nil {
			return "", err
		}
		if to != "" {
			x.steps = append(x.steps, step{pod: p, to: to})
			continue
		}
		made := false
		if x.chains {
			if made, err = x.chain(ctx, p); err != nil {
				return "", err
			}
		}
		if !made {
			x.release(began, l.name)
			return nameOf(p) + ": " + why, nil
		}
	}
	for _, s := range x.steps[began:] {
		x.memory += kube.Requests(s.pod).Memory
	}
	if x.limits.Pods > 0 && len(x.steps) > x.limits.Pods || x.limits.Memory > 0 && x.memory > x.limits.Memory {
		x.release(began, l.name)
		return "with the pods that make room for its own, more would have to move than may", nil
	}
	for _, s := range x.steps[began:] {
		x.takes[s.to] = true
	}
	x.freed = append(x.freed, l.name)
	return "", nil
}

// release takes back the steps after the first n, which were to empty a node.
func (x *search) release(n int, node string) {
	x.undo(n)
	x.steps = x.steps[:n]
	x.memory = 0
	for _, s := range x.steps {
		x.memory += kube.Requests(s.pod).Memory
	}
	delete(x.barred, node)
}

// place moves a pod to the fullest node that takes it. If none does, the pod stays, and why is the reason.
func (x *search) place(ctx context.Context, p *v1.Pod) (to, why string, err error) {
	x.cluster.Remove(p.UID)
	choice, err := x.cluster.Choose(ctx, p)
	if err != nil {
		x.cluster.Fix(p)
		return "", "", err
	}
	nodes, err := x.cluster.Nodes()
	if err != nil {
		x.cluster.Fix(p)
		return "", "", err
	}
	amounts := kube.Requests(p)
	more, most, reasons := values.Resources{MilliCPU: amounts.MilliCPU, Memory: amounts.Memory}, 0.0, map[string]int{}
	for _, n := range nodes {
		if x.barred[n.Name] {
			continue
		}
		if reason, refused := choice.Refused[n.Name]; refused {
			reasons[reason]++
			continue
		}
		if full := fill(n, more); to == "" || full > most || full == most && n.Name < to {
			to, most = n.Name, full
		}
	}
	if to == "" {
		x.cluster.Fix(p)
		return "", "no other node in use takes it" + list(reasons), nil
	}
	x.cluster.Fix(memcluster.On(p, to))
	return to, "", nil
}

// list renders reasons, the most frequent first: ": 3 Insufficient cpu, 1 node(s) had untolerated taint".
func list(reasons map[string]int) string {
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	out := ""
	for i, name := range names {
		if i == 3 {
			break
		}
		out += fmt.Sprintf("%s %d %s", []string{":", ",", ","}[i], reasons[name], name)
	}
	return out
}

// undo puts the pods of the steps after the first n back.
func (x *search) undo(n int) {
	for i := len(x.steps) - 1; i >= n; i-- {
		p := x.steps[i].pod
		x.cluster.Remove(p.UID)
		x.cluster.Fix(p)
	}
}

// better reports whether a search found more, or the same for less.
func (x *search) better(than *search) bool {
	return cmp.Or(cmp.Compare(len(x.freed), len(than.freed)), cmp.Compare(len(than.steps), len(x.steps)),
		cmp.Compare(than.memory, x.memory)) > 0
}
