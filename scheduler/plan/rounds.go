package plan

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// result orders the steps in rounds and describes them.
func (x *search) result(ctx context.Context, nodes []*values.Node) (Moves, error) {
	out := Moves{
		Nodes: len(nodes), Empty: []string{}, Freed: slices.Sorted(slices.Values(x.freed)), Moves: []Move{}, Stay: []Blocked{},
		Waiting: len(x.waiting), Notes: x.notes,
	}
	for _, n := range nodes {
		switch why, stays := x.why[n.Name]; {
		case stays:
			out.Stay = append(out.Stay, Blocked{n.Name, len(x.pods[n.Name]), why})
		case len(x.pods[n.Name]) == 0:
			out.Empty = append(out.Empty, n.Name)
		}
	}
	slices.Sort(out.Empty)
	slices.SortFunc(out.Stay, func(a, b Blocked) int { return cmp.Or(cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Node, b.Node)) })
	rounds, err := x.rounds(false)
	if err != nil {
		return out, err
	}
	together, err := x.holds(ctx, rounds)
	if err != nil {
		return out, err
	}
	if !together { // a pod needs another one to have moved before
		if rounds, err = x.rounds(true); err != nil {
			return out, err
		}
	}
	for i, s := range x.steps {
		m := Move{
			Round: rounds[i], Pod: nameOf(s.pod), UID: string(s.pod.UID), Memory: kube.Requests(s.pod).Memory, From: s.pod.Spec.NodeName, To: s.to,
		}
		if b := x.covers[s.pod.UID]; b != nil {
			m.Budget = b.namespace + "/" + b.name
		}
		if x.empties[s.pod.UID] {
			m.Loses = record.HoldsEmptyDir
		}
		out.Moves, out.Rounds = append(out.Moves, m), max(out.Rounds, m.Round)
	}
	slices.SortStableFunc(out.Moves, func(a, b Move) int { return cmp.Compare(a.Round, b.Round) })
	out.Commands = commands(x.freed, out.Empty, x.limits)
	return out, nil
}

// rounds returns the round of each step, so that no round moves more pods of a budget than it allows. With inOrder no step
// comes before an earlier one.
func (x *search) rounds(inOrder bool) ([]int, error) {
	type place struct {
		budget *budget
		round  int
	}
	moved := map[place]int{}
	out, last := make([]int, len(x.steps)), 1
	for i, s := range x.steps {
		round := 1
		if inOrder {
			round = last
		}
		if s.after > 0 {
			round = max(round, out[s.after-1]+1)
		}
		if b := x.covers[s.pod.UID]; b != nil {
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
func (x *search) holds(ctx context.Context, rounds []int) (bool, error) {
	order := make([]int, len(rounds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rounds[a], rounds[b]) })
	defer x.undo(0)
	for _, i := range order {
		s := x.steps[i]
		x.cluster.Remove(s.pod.UID)
		choice, err := x.cluster.Choose(ctx, s.pod)
		_, refused := choice.Refused[s.to]
		if err != nil || refused {
			x.cluster.Fix(s.pod)
			return false, err
		}
		x.cluster.Fix(memcluster.On(s.pod, s.to))
	}
	return true, nil
}

// Recheck returns why each of the moves cannot be made any more, in their order; "" if it can. A move that can counts for those after it.
// A budget that allows no disruption for now is no reason. Recheck restores the cluster at the end. A plugin's error ends it.
func (s *State) Recheck(ctx context.Context, l Limits, moves []Move) ([]string, error) {
	x := &search{State: s, limits: l}
	defer x.undo(0)
	out := make([]string, len(moves))
	for i, m := range moves {
		p := s.cluster.Running[types.UID(m.UID)]
		switch {
		case p == nil || s.own[p.UID]:
			out[i] = "it has ended or is being deleted"
		case p.Spec.NodeName != m.From:
			out[i] = "it is on " + p.Spec.NodeName + " now"
		default:
			out[i] = x.forbids(p)
		}
		if out[i] != "" {
			continue
		}
		s.cluster.Remove(p.UID)
		choice, err := s.cluster.Choose(ctx, p)
		why, refused := choice.Refused[m.To]
		if err != nil || refused {
			s.cluster.Fix(p)
			out[i] = m.To + " does not take it any more: " + why
			if err != nil {
				return nil, err
			}
			continue
		}
		s.cluster.Fix(memcluster.On(p, m.To))
		x.steps = append(x.steps, step{pod: p, to: m.To})
	}
	return out, nil
}
