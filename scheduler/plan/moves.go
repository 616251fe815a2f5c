package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/utils/ptr"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
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
	// Also names kinds of owners and schedulers beside Kubernetes' own, whose pods move too.
	Also []string
	// Age is how long a pod must have run to move.
	Age time.Duration
}

// UsualShare is the share of the pods that may move if nobody says otherwise.
const UsualShare = 0.02

// UsualLimits returns the limits of gnnsched defrag without flags on a cluster with so many pods.
func UsualLimits(pods int) Limits {
	return Limits{
		Pods: max(1, int(UsualShare*float64(pods))), Age: 10 * time.Minute, Priority: ptr.To(scheduling.HighestUserDefinablePriority),
		Chains: true,
	}
}

// Moves is a list of moves and their effect.
type Moves struct {
	Nodes   int       `json:"nodes"` // of the cluster
	Empty   []string  `json:"empty"` // nodes that are empty before any move
	Freed   []string  `json:"freed"` // nodes that the moves empty
	Rounds  int       `json:"rounds"`
	Moves   []Move    `json:"moves"` // in their order
	Stay    []Blocked `json:"stay"`  // nodes that stay in use
	Bound   int       `json:"bound"` // no moves can empty more nodes; 0 with room
	Waiting int       `json:"waiting"`
	Room    *Place    `json:"room,omitempty"`  // what the moves make room for
	Lower   *Lower    `json:"lower,omitempty"` // the cost that the moves lower
	Effects []Effect  `json:"effects"`
	// Commands carry out the moves. As printed, kubectl only does a dry run.
	Commands []string `json:"commands"`
	Notes    []string `json:"notes,omitempty"`
}

// Place is a node for a pod that waits.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// Lower is a cost, in the unit of the objective: 0 is the best state, and 1 about the worst.
type Lower struct {
	Objective string  `json:"objective"`
	Before    float64 `json:"before"`
	After     float64 `json:"after"`
}

// Move is a pod that moves. The moves of a round may be made together. The next round begins when the pods of this one run.
type Move struct {
	Round  int    `json:"round"`
	Pod    string `json:"pod"`
	UID    string `json:"uid"`
	Memory int64  `json:"memory"`
	From   string `json:"from"`
	To     string `json:"to"`
	GPUs   string `json:"gpus,omitempty"` // of the node To, such as 0-1
	// Devices are free there for its ResourceClaims. The scheduler may choose others.
	Devices []string `json:"devices,omitempty"`
	Budget  string   `json:"budget,omitempty"` // the PodDisruptionBudget that covers it
	Loses   string   `json:"loses,omitempty"`  // data that the pod loses
	Gain    float64  `json:"gain,omitempty"`   // by how much Lower falls; the mean of the moves that were chosen together
}

// Blocked is a node that stays in use.
type Blocked struct {
	Node string `json:"node"`
	Pods int    `json:"pods"` // without pods that belong to the node
	Why  string `json:"why"`
}

// Search says how Find looks for moves.
type Search struct {
	By moves.Searcher
	// The moves lower this objective. If it is nil, they empty nodes.
	Objective *moves.Objective
	Time      time.Duration // after which it ends, with the best moves so far; 0: when it finds no better ones
	// Progress gets the fraction of the work that is done.
	Progress func(done float64)
}

// Find looks for the moves that empty most nodes within the limits, or lower by.Objective. It restores the cluster at the end.
func Find(ctx context.Context, s *State, l Limits, by Search) (Moves, error) {
	began, late := time.Now(), false
	v, err := s.view(ctx, l, by.Objective)
	if err != nil {
		return Moves{}, err
	}
	stop := func() bool {
		late = late || by.Time > 0 && time.Since(began) > by.Time
		return late || v.err != nil || ctx.Err() != nil
	}
	var out Moves
	if by.Objective != nil {
		out, err = v.lower(by, stop)
	} else {
		out, err = v.result(moves.Empty(v.state, by.By, v.limits.moves(), stop, by.Progress))
	}
	if err := cmp.Or(v.err, context.Cause(ctx)); err != nil {
		return Moves{}, err
	}
	if late && (out.Lower != nil || len(out.Freed) < out.Bound) {
		out.Notes = append(slices.Clip(out.Notes), fmt.Sprintf("the search ended after %v with the best moves so far", by.Time))
	}
	return out, err
}

// evaluations bounds a search for a lower cost. On 1,213 nodes with 6,700 pods it needs 200,000 to 400,000.
const evaluations = 20_000_000

// lower looks for the moves that lower by.Objective most.
func (v *view) lower(by Search, stop func() bool) (Moves, error) {
	before := v.state.Cost()
	after, memory, most := before, int64(0), v.limits.Pods
	if most == 0 {
		most = len(v.pods)
	}
	var all []values.Move
	var home []int32
	gains := map[types.UID]float64{}
	for _, c := range moves.Find(v.state, by.By, most, stop) {
		for _, m := range c.Moves {
			memory += kube.Requests(v.pods[m.Pod]).Memory
			gains[v.pods[m.Pod].UID] = -c.By / float64(len(c.Moves))
		}
		if v.limits.Memory > 0 && memory > v.limits.Memory {
			break
		}
		after += c.By
		for _, m := range c.Moves {
			all, home = append(all, m), append(home, v.home[m.Pod].Row)
		}
	}
	for _, at := range v.home {
		v.Moved(at)
	}
	out, err := v.result(moves.Emptied{Steps: moves.Order(all, home)})
	for i := range out.Moves {
		out.Moves[i].Gain = gains[types.UID(out.Moves[i].UID)]
	}
	out.Empty, out.Commands, out.Lower = []string{}, []string{}, &Lower{by.Objective.Name(), before, after}
	return out, err
}

// moves returns the limits that the search knows.
func (l Limits) moves() moves.Limits {
	return moves.Limits{Pods: l.Pods, Memory: l.Memory, Chains: l.Chains}
}

// view is how package moves sees a State: nodes by row, and the pods that do not belong to their node. It implements moves.Rules.
type view struct {
	*State
	state   *moves.State
	ctx     context.Context
	limits  Limits
	nodes   []*values.Node
	pods    []*v1.Pod              // on their nodes, by name; waiting ones come last
	home    []values.Move          // by pod: where it is
	on      []int                  // by row: their number
	at      map[int]values.Move    // of pods that the search has moved since the cluster was brought up to date
	typical *fragmentation.Typical // pods; nil without any
	claims  map[types.UID][]string // devices of the plan, for pods with ResourceClaims
	closed  []bool                 // by row: the search cordons it
	err     error                  // of a plugin
}

func (s *State) view(ctx context.Context, l Limits, lower *moves.Objective, waiting ...*v1.Pod) (*view, error) {
	nodes, err := s.cluster.Nodes()
	if err != nil {
		return nil, err
	}
	v, rows := &view{State: s, ctx: ctx, limits: l, on: make([]int, len(nodes)), at: map[int]values.Move{},
		claims: map[types.UID][]string{}, closed: make([]bool, len(nodes))}, map[string]int32{"": -1}
	for i, n := range nodes {
		rows[n.Name] = int32(i)
		empty := *n
		empty.Requested, empty.Unrequested, empty.Groups = values.Resources{}, values.Resources{}, nil
		empty.GPUs = slices.Clone(n.GPUs)
		clear(empty.GPUs)
		v.nodes = append(v.nodes, &empty)
	}
	devices := s.place(v.nodes, rows)
	for uid, p := range s.cluster.Running {
		if _, known := rows[p.Spec.NodeName]; known && !s.own[uid] {
			v.pods = append(v.pods, p)
		}
	}
	slices.SortFunc(v.pods, byName)
	v.pods = append(v.pods, waiting...)
	pods, demands := make([]moves.Pod, len(v.pods)), make([]fragmentation.Demand, len(v.pods))
	for i, p := range v.pods {
		asks, _ := kube.Pod(p)
		one := &values.Pod{Requests: asks.Requests, GPUModels: asks.GPUModels, Tolerations: asks.Tolerations}
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
			one.Owner = p.Namespace + "/" + owner.Kind + "/" + owner.Name
		}
		demands[i] = fragmentation.Demand{Requests: one.Requests, Models: one.GPUModels, Tolerations: one.Tolerations, Count: 1}
		at := values.Move{Pod: i, Row: rows[p.Spec.NodeName], Devices: devices[p.UID]}
		pods[i], v.home = moves.Pod{Pod: one, ID: i, Name: nameOf(p), Row: at.Row, Devices: at.Devices}, append(v.home, at)
		if at.Row >= 0 {
			v.on[at.Row]++
		}
	}
	v.typical = fragmentation.NewTypical(demands)
	v.state = moves.New(v.nodes, pods, moves.Config{Evaluations: evaluations, Rules: v, Track: func(nodes []*values.Node) objective.Tracker {
		if lower == nil {
			return objective.Pack{}.Track(nodes)
		}
		return lower.Track(v.typical, nodes)
	}})
	return v, nil
}

// place puts the running pods on nodes, each on its GPUs or, if these are not known, where there is room. It returns the GPUs.
func (s *State) place(nodes []*values.Node, rows map[string]int32) map[types.UID]values.DeviceSet {
	out, running := map[types.UID]values.DeviceSet{}, map[types.UID]kube.RunningPod{}
	for uid, p := range s.cluster.Running {
		running[uid], _ = kube.Running(p)
	}
	for _, p := range slices.SortedFunc(maps.Values(s.cluster.Running), func(a, b *v1.Pod) int {
		x, y := running[a.UID], running[b.UID]
		return cmp.Or(cmp.Compare(min(y.Devices, 1), min(x.Devices, 1)), kube.LargestFirst(x, y), byName(a, b))
	}) {
		if row, known := rows[p.Spec.NodeName]; known {
			out[p.UID] = kube.PlaceInOrder(nodes[row], []kube.RunningPod{running[p.UID]})[0]
		}
	}
	for _, n := range nodes {
		kube.CloseLost(n, 0)
	}
	return out
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(nameOf(a), nameOf(b)), cmp.Compare(a.UID, b.UID))
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// controlPlane is the label of control-plane nodes.
const controlPlane = "node-role.kubernetes.io/control-plane"

// isControl reports whether a node runs the control plane. Such nodes stay in every plan.
func isControl(n *record.Node) bool {
	_, is := record.Labels(n.Labels)[controlPlane]
	return is
}

// Kept implements moves.Rules.
func (v *view) StaysInUse(row int32) string { return v.kept[v.nodes[row].Name] }

// Stays implements moves.Rules.
func (v *view) Stays(pod int) string {
	p := v.pods[pod]
	return cmp.Or(v.forbids(p, v.limits), v.spent[p.UID])
}

// forbids returns why a pod may not be moved, whatever its budget allows at present.
func (s *State) forbids(p *v1.Pod, l Limits) string {
	switch age := time.UnixMilli(s.at).Sub(p.Status.StartTime.Time); {
	case s.stays[p.UID] != "":
		return s.stays[p.UID]
	case s.foreign[p.UID].why != "" && !slices.Contains(l.Also, s.foreign[p.UID].name):
		return s.foreign[p.UID].why
	case s.empties[p.UID] && !l.EmptyDirs:
		return "its emptyDir volumes would lose their data; --delete-emptydir-data allows that"
	case l.Priority != nil && p.Spec.Priority != nil && *p.Spec.Priority > *l.Priority:
		return fmt.Sprintf("its priority is %d, over the limit of %d", *p.Spec.Priority, *l.Priority)
	case age < l.Age:
		return fmt.Sprintf("it has run for %v, less than %v", age.Round(time.Second), l.Age)
	}
	return ""
}

// Moved implements moves.Rules.
func (v *view) Moved(to values.Move) { v.at[to.Pod] = to }

// update brings the cluster up to date with the search. All pods leave before others come: upstream's nodes count a host port once. Barred
// rows are cordoned, where that matters.
func (v *view) update(barred []bool) {
	for row, n := range v.nodes {
		closed := v.honours && barred != nil && barred[row]
		if closed == v.closed[row] {
			continue
		}
		changed, err := v.cluster.Cordon(n.Name, closed)
		v.closed[row], v.err = closed && changed, cmp.Or(v.err, err)
	}
	var back, come []*v1.Pod // back to their own devices, which are free then, and elsewhere
	for _, pod := range slices.Sorted(maps.Keys(v.at)) {
		to := v.at[pod]
		p, now := v.pods[pod], v.cluster.Running[v.pods[pod].UID]
		var then *v1.Pod
		if to.Row >= 0 {
			then = memcluster.OnDevices(p, v.nodes[to.Row].Name, kube.FormatDevices(to.Devices))
		}
		if then != nil && now != nil && now.Spec.NodeName == then.Spec.NodeName && gpus(now) == gpus(then) {
			continue
		}
		switch v.cluster.Remove(p.UID); {
		case then != nil && to.Row == v.home[pod].Row:
			back = append(back, then)
		case then != nil:
			come = append(come, then)
		}
	}
	for _, p := range append(back, come...) {
		v.cluster.Fix(p)
	}
	clear(v.at)
}

// gpus returns the GPUs that a pod's annotation names.
func gpus(p *v1.Pod) string { return p.Annotations[kube.GPUIndexAnnotation] }

// Refusal implements moves.Rules.
func (v *view) Refusal(pod int, row int32, barred []bool) string {
	if why := v.dead[v.nodes[row].Name]; why != "" {
		return why
	}
	v.update(barred)
	why, err := v.cluster.Refusal(v.ctx, v.pods[pod], v.nodes[row].Name)
	if v.err = cmp.Or(v.err, err); v.err != nil {
		return v.err.Error()
	}
	return why
}

// Refusals implements moves.Rules.
func (v *view) Refusals(pod int, barred []bool) string {
	v.update(barred)
	now := v.cluster.Running[v.pods[pod].UID]
	v.cluster.Remove(v.pods[pod].UID)
	choice, err := v.cluster.Choose(v.ctx, v.pods[pod])
	if now != nil {
		v.cluster.Fix(now)
	}
	v.err = cmp.Or(v.err, err)
	reasons := map[string]int{}
	for row, n := range v.nodes {
		if reason, refused := choice.Refused[n.Name]; refused && !barred[row] {
			reasons[reason]++
		}
	}
	return "no other node in use takes it" + list(reasons)
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
