package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/moves"
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
	if err == nil && !v.holds(found.Steps, rounds, closed) { // a pod needs another one to have moved before
		rounds, err = v.rounds(found.Steps, true)
		if err == nil && !v.holds(found.Steps, rounds, closed) {
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

// holds reports whether all nodes take their pods when the steps are made round by round. It restores the cluster at the end.
func (v *view) holds(steps []moves.Step, rounds []int, closed []bool) bool {
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

// Room looks for the moves that make room for a waiting pod, named namespace/name, as moves.Room does. It is an error if no such pod waits
// or no node can be cleared for it. Room restores the cluster at the end. progress gets the fraction of the work that is done.
func Room(ctx context.Context, s *State, pod string, l Limits, progress func(done float64)) (Moves, error) {
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
		steps, row, reasons := moves.Room(v.state, len(v.pods)-1, l.moves(), progress)
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
