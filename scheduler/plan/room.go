package plan

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/moves"
)

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
