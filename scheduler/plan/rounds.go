package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// result orders the steps of a search in rounds and describes them.
func (v *view) result(found moves.Emptied) (Moves, error) {
	out := Moves{
		Nodes: len(v.nodes), Empty: []string{}, Freed: []string{}, Moves: []Move{}, Stay: []Blocked{}, Bound: found.Bound,
		Waiting: len(v.waiting), Effects: v.effects(found.Steps), Notes: slices.Concat(v.notes, v.strange()),
	}
	for row, n := range v.nodes {
		switch why, stays := found.Why[int32(row)]; {
		case stays:
			out.Stay = append(out.Stay, Blocked{n.Name, v.on[row], why})
		case v.on[row] == 0:
			out.Empty = append(out.Empty, n.Name)
		}
	}
	for _, row := range found.Freed {
		out.Freed = append(out.Freed, v.nodes[row].Name)
	}
	slices.Sort(out.Empty)
	slices.SortFunc(out.Stay, func(a, b Blocked) int { return cmp.Or(cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Node, b.Node)) })
	closed := make([]bool, len(v.nodes)) // as long as pods move
	for row := range v.nodes {
		_, stays := found.Why[int32(row)]
		closed[row] = len(found.Freed) > 0 && !stays && (v.on[row] == 0 || slices.Contains(found.Freed, int32(row)))
	}
	rounds, err := v.rounds(found.Steps, false)
	if err == nil && !v.feasible(found.Steps, rounds, closed) { // a pod needs another one to have moved before
		rounds, err = v.rounds(found.Steps, true)
		if err == nil && !v.feasible(found.Steps, rounds, closed) {
			err = errors.New("the moves that were found are not possible one after another; try another --search")
		}
	}
	if err := cmp.Or(err, v.err); err != nil {
		return out, err
	}
	for i, s := range found.Steps {
		p := v.pods[s.Pod]
		m := Move{
			Round: rounds[i], Pod: nameOf(p), UID: string(p.UID), Memory: kube.Requests(p).Memory, From: p.Spec.NodeName, To: v.nodes[s.Row].Name,
			GPUs: kube.FormatDevices(s.Devices), Devices: v.claims[p.UID],
		}
		if b := v.covers[p.UID]; b != nil {
			m.Budget = b.namespace + "/" + b.name
		}
		if v.empties[p.UID] {
			m.Loses = record.HoldsEmptyDir
		}
		out.Moves, out.Rounds = append(out.Moves, m), max(out.Rounds, m.Round)
	}
	slices.SortStableFunc(out.Moves, func(a, b Move) int { return cmp.Compare(a.Round, b.Round) })
	out.Commands = commands(out.Freed, out.Empty, v.limits)
	slices.Sort(out.Freed)
	return out, nil
}

// rounds returns the round of each step, so that no round moves more pods of a budget than it allows. With inOrder no step
// comes before an earlier one.
func (v *view) rounds(steps []moves.Step, inOrder bool) ([]int, error) {
	type place struct {
		budget *budget
		round  int
	}
	moved := map[place]int{}
	out, last := make([]int, len(steps)), 1
	for i, x := range steps {
		round := 1
		if inOrder {
			round = last
		}
		if x.After > 0 {
			round = max(round, out[x.After-1]+1)
		}
		if b := v.covers[v.pods[x.Pod].UID]; b != nil {
			allowed, err := b.allowed()
			if err != nil {
				return nil, err
			}
			for moved[place{b, round}] >= allowed { // a budget that allows nothing keeps its pods
				round++
			}
			moved[place{b, round}]++
		}
		out[i], last = round, round
	}
	return out, nil
}

// feasible reports whether all nodes take their pods when the steps are made round by round. It restores the cluster at the end.
func (v *view) feasible(steps []moves.Step, rounds []int, closed []bool) bool {
	order := make([]int, len(rounds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rounds[a], rounds[b]) })
	clear(v.claims)
	defer func() {
		for _, s := range steps {
			v.Moved(v.home[s.Pod])
		}
		v.update(nil)
	}()
	for _, i := range order {
		s := steps[i]
		if v.Moved(values.Move{Pod: s.Pod, Row: -1}); v.Refusal(s.Pod, s.Row, closed) != "" {
			return false
		}
		v.Moved(s.Move)
		if uid := v.pods[s.Pod].UID; v.devices.Own(uid) {
			v.update(closed)
			v.claims[uid] = v.cluster.DevicesOf(uid)
		}
	}
	return true
}

// Recheck returns why each of the moves cannot be made any more, in their order; "" if it can. A move that can counts for those after it.
// A budget that allows no disruption for now is no reason. Recheck restores the cluster at the end. A plugin's error ends it.
func (s *State) Recheck(ctx context.Context, l Limits, moves []Move) ([]string, error) {
	var made []*v1.Pod
	defer func() {
		for _, p := range made {
			s.cluster.Remove(p.UID)
		}
		for _, p := range made {
			s.cluster.Fix(p)
		}
	}()
	out := make([]string, len(moves))
	for i, m := range moves {
		p := s.cluster.Running[types.UID(m.UID)]
		switch {
		case p == nil || s.own[p.UID]:
			out[i] = "it has ended or is being deleted"
		case p.Spec.NodeName != m.From:
			out[i] = "it is on " + p.Spec.NodeName + " now"
		default:
			out[i] = cmp.Or(s.forbids(p, l), s.dead[m.To])
		}
		if out[i] != "" {
			continue
		}
		s.cluster.Remove(p.UID)
		there := memcluster.OnDevices(p, m.To, m.GPUs)
		why, err := s.cluster.Refusal(ctx, p, m.To)
		if err == nil && why == "" && !s.cluster.HasDevices(there) {
			why = "other pods use its GPUs " + m.GPUs
		}
		if err != nil || why != "" {
			s.cluster.Fix(p)
			out[i] = m.To + " does not take it any more: " + why
			if err != nil {
				return nil, err
			}
			continue
		}
		s.cluster.Fix(there)
		made = append(made, p)
	}
	return out, nil
}

// MakeRoom looks for the moves that make room for a waiting pod, named namespace/name, as moves.MakeRoom does. It is an error if no such
// pod waits or no node can be cleared for it. MakeRoom restores the cluster at the end. progress gets the fraction of the work that is
// done.
func MakeRoom(ctx context.Context, s *State, pod string, l Limits, progress func(done float64)) (Moves, error) {
	i := slices.IndexFunc(s.waiting, func(p *v1.Pod) bool { return nameOf(p) == pod })
	if i < 0 {
		return Moves{}, fmt.Errorf("no pod %s waits for a node", pod)
	}
	if why := s.stays[s.waiting[i].UID]; why != "" {
		return Moves{}, fmt.Errorf("%s: %s", pod, why)
	}
	v, err := s.view(ctx, l, nil, s.waiting[i])
	if err != nil {
		return Moves{}, err
	}
	choice, err := s.cluster.Choose(ctx, s.waiting[i])
	if err != nil {
		return Moves{}, err
	}
	at, found := choice.Node, moves.Emptied{}
	if at == "" {
		steps, row, reasons := moves.MakeRoom(v.state, len(v.pods)-1, l.moves(), progress)
		v.update(nil)
		switch {
		case v.err != nil:
			return Moves{}, v.err
		case row < 0:
			return Moves{}, fmt.Errorf("no node can be cleared for %s%s", pod, list(reasons))
		}
		at, found.Steps = v.nodes[row].Name, steps
	}
	out, err := v.result(found)
	out.Empty, out.Commands, out.Room = []string{}, []string{}, &Place{pod, at}
	return out, err
}

// budget is a PodDisruptionBudget.
type budget struct {
	namespace, name string
	selector        labels.Selector
	spec            policyv1.PodDisruptionBudgetSpec
	status          *policyv1.PodDisruptionBudgetStatus // of the disruption controller; nil if the record does not say
	pods            int                                 // that it selects
	replicas        int                                 // the subset with a controller that is not being deleted
	healthy         int                                 // pods that are ready and not being deleted
	scaleless       string                              // kind of a controller whose scale the disruption controller cannot find
}

// readBudget reads a row of the table objects.
func readBudget(o *record.Object) (*budget, error) {
	b := &budget{namespace: o.Namespace, name: o.Name}
	err := json.Unmarshal([]byte(o.Spec), &b.spec)
	if err == nil {
		b.selector, err = metav1.LabelSelectorAsSelector(b.spec.Selector)
	}
	if err == nil && o.Status != "" {
		err = json.Unmarshal([]byte(o.Status), &b.status)
	}
	if err == nil {
		_, err = b.desired()
	}
	if err != nil {
		return nil, fmt.Errorf("PodDisruptionBudget %s/%s: %w", o.Namespace, o.Name, err)
	}
	return b, nil
}

// selects reports whether the budget covers a pod.
func (b *budget) selects(p *v1.Pod) bool {
	return p.Namespace == b.namespace && b.selector.Matches(labels.Set(p.Labels))
}

// count counts a pod that the budget selects. health is "" if the record does not say; the pod then counts as ready if it has a node.
func (b *budget) count(r *record.Pod, health string, placed bool) {
	b.pods++
	switch {
	case slices.Contains([]string{"Job", "DaemonSet", "Node"}, r.OwnerKind):
		b.scaleless = r.OwnerKind
	case r.OwnerKind != "" && health != record.Terminating:
		b.replicas++
	}
	if placed && (health == "" || health == record.Ready) {
		b.healthy++
	}
}

// scaled reports whether the budget's limit depends on the number of replicas that controllers want.
func (b *budget) scaled() bool {
	return b.spec.MaxUnavailable != nil || b.spec.MinAvailable != nil && b.spec.MinAvailable.Type == intstr.String
}

// expected returns how many pods there should be, as the disruption controller counts. A record does not hold an owner's wanted replicas,
// so the present ones count.
func (b *budget) expected() int {
	switch {
	case b.status != nil:
		return int(b.status.ExpectedPods)
	case b.scaled() && b.scaleless == "":
		return b.replicas
	}
	return b.pods
}

// desired returns the number of pods that must stay healthy.
func (b *budget) desired() (int, error) { return replay.MustStay(&b.spec, b.expected()) }

// allowed returns how many healthy pods may be evicted now: the disruption controller's number, or else the number that it would compute.
// It allows none for a budget without a limit, and none if it cannot tell how many replicas there should be.
func (b *budget) allowed() (int, error) {
	desired, err := b.desired()
	switch {
	case err != nil:
		return 0, err
	case b.status != nil:
		return max(int(b.status.DisruptionsAllowed), 0), nil
	case b.scaled() && b.scaleless != "", b.expected() == 0:
		return 0, nil
	}
	return max(b.healthy-desired, 0), nil
}

// spares reports whether the API server evicts a pod in this state even if the budget allows none.
func (b *budget) spares(health string) (bool, error) {
	if health != record.NotReady {
		return false, nil
	}
	if p := b.spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true, nil
	}
	desired, err := b.desired()
	if b.status != nil {
		desired = int(b.status.DesiredHealthy)
	}
	return err == nil && b.ready() >= desired && desired > 0, err
}

// ready returns the number of the budget's healthy pods.
func (b *budget) ready() int {
	if b.status != nil {
		return int(b.status.CurrentHealthy)
	}
	return b.healthy
}

// String describes the budget.
func (b *budget) String() string {
	limit := "neither minAvailable nor maxUnavailable"
	switch {
	case b.spec.MaxUnavailable != nil:
		limit = "maxUnavailable " + b.spec.MaxUnavailable.String()
	case b.spec.MinAvailable != nil:
		limit = "minAvailable " + b.spec.MinAvailable.String()
	}
	more := ""
	if b.status == nil && b.scaled() && b.scaleless != "" {
		more = fmt.Sprintf(", a %s has no scale", b.scaleless)
	}
	return fmt.Sprintf("PodDisruptionBudget %s/%s (%s, %d of %d pods are ready%s)", b.namespace, b.name, limit, b.ready(), b.expected(), more)
}

// foreign is why a pod may not come back as planned, unless Limits.Also has the name.
type foreign struct {
	name string // of the owner's kind, or of the scheduler
	why  string
}

type jobName struct{ namespace, name string }

// triesAt returns how many more pods of each Job may be evicted at the end of the window.
func triesAt(s replay.Source) map[jobName]int32 {
	out := map[jobName]int32{}
	for i := range s.Objects {
		o, tries := &s.Objects[i], int32(0)
		if o.Kind == record.KindJob && o.Spec != "" && o.From < s.To && (o.To == 0 || o.To >= s.To) &&
			record.ReadColumn(o.Spec, &tries) == nil {
			out[jobName{o.Namespace, o.Name}] = tries
		}
	}
	return out
}

// foreignTo reports whether another scheduler places the pod, or its owner may not make it anew.
func foreignTo(r *record.Pod, tries map[jobName]int32) (foreign, bool) {
	left, known := tries[jobName{r.Namespace, r.OwnerName}]
	switch {
	case r.Scheduler != "" && r.Scheduler != v1.DefaultSchedulerName:
		return foreign{r.Scheduler, "the scheduler " + r.Scheduler + " places it"}, true
	case r.OwnerKind == record.KindJob && left > 0 || record.Makes(r.OwnerKind):
		return foreign{}, false
	case r.OwnerKind == record.KindJob && known:
		return foreign{r.OwnerKind, "its Job has no try left, and fails if the pod is evicted"}, true
	case r.OwnerKind == record.KindJob:
		return foreign{r.OwnerKind, "whether its Job makes it anew is not known"}, true
	}
	return foreign{r.OwnerKind, "its controller, a " + r.OwnerKind + ", may not make it anew"}, true
}

// strange counts and names the pods that stay because they are foreign.
func (v *view) strange() (notes []string) {
	pods := map[foreign][]string{}
	for _, p := range v.pods {
		if f, is := v.foreign[p.UID]; is && v.forbids(p, v.limits) == f.why {
			pods[f] = append(pods[f], nameOf(p))
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(pods), func(a, b foreign) int { return cmp.Compare(a.why, b.why) }) {
		what := fmt.Sprintf("pods stay, each because %s; --also-move %s moves such pods", f.why, f.name)
		notes = append(notes, named(what, pods[f])...)
	}
	return notes
}
