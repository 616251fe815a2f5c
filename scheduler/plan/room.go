package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
)

// Room looks for the moves that make room for a waiting pod, named namespace/name: those on one node, of the fewest pods with the least
// memory, within the limits. On each node the largest pods stay that fit beside the pod; the others go to the fullest nodes that take them.
// That is a heuristic: no pod makes room for a pod that makes room. It is an error if no such pod waits or no node can be cleared for it. Room
// restores the cluster at the end. progress gets the fraction of the work that is done.
func Room(ctx context.Context, s *State, pod string, l Limits, progress func(done float64)) (Moves, error) {
	i := slices.IndexFunc(s.waiting, func(p *v1.Pod) bool { return nameOf(p) == pod })
	if i < 0 {
		return Moves{}, fmt.Errorf("no pod %s waits for a node", pod)
	}
	waits := s.waiting[i]
	nodes, err := s.cluster.Nodes()
	if err != nil {
		return Moves{}, err
	}
	nodes = slices.Clone(nodes)
	choice, err := s.cluster.Choose(ctx, waits)
	if err != nil {
		return Moves{}, err
	}
	best, at, reasons := (*search)(nil), choice.Node, map[string]int{}
	for i, n := range nodes {
		progress(float64(i) / float64(len(nodes)))
		if choice.Node != "" {
			break
		}
		x := &search{State: s, limits: l, pods: s.byNode(), barred: map[string]bool{n.Name: true}}
		why, err := x.clear(ctx, n.Name, waits)
		if err != nil {
			return Moves{}, err
		}
		if why != "" {
			reasons[why]++
		} else if best == nil || x.better(best) {
			best, at = x, n.Name
		}
	}
	if at == "" {
		return Moves{}, fmt.Errorf("no node can be cleared for %s%s", pod, list(reasons))
	}
	if best == nil {
		best = &search{State: s, limits: l}
	}
	out, err := best.result(ctx, nodes)
	out.Empty, out.Commands, out.Room = []string{}, []string{}, &Place{pod, at}
	return out, err
}

// clear finds the moves that make room on a node, as steps, and undoes them. why describes the obstacle.
func (x *search) clear(ctx context.Context, n string, waits *v1.Pod) (why string, err error) {
	var off []*v1.Pod // the node, for now
	for _, p := range x.pods[n] {
		if x.keeps(p) == "" {
			off = append(off, p)
		}
	}
	for _, p := range off {
		x.cluster.Remove(p.UID)
	}
	defer func() {
		x.cluster.Remove(waits.UID)
		for _, p := range off {
			x.cluster.Remove(p.UID)
			x.cluster.Fix(p)
		}
	}()
	if why, err := x.refusal(ctx, waits, n); why != "" || err != nil {
		return why, err
	}
	x.cluster.Fix(memcluster.On(waits, n))
	for _, p := range off {
		why, err := x.refusal(ctx, p, n)
		if err != nil {
			return "", err
		}
		if why == "" {
			x.cluster.Fix(p)
			continue
		}
		to, why, err := x.place(ctx, p)
		if err != nil || to == "" {
			return "has a pod that must go, and " + why, err
		}
		x.steps, x.memory = append(x.steps, step{pod: p, to: to}), x.memory+kube.Requests(p).Memory
	}
	if l := x.limits; l.Pods > 0 && len(x.steps) > l.Pods || l.Memory > 0 && x.memory > l.Memory {
		return "needs more moves than the limits allow", nil
	}
	return "", nil
}

// refusal returns why a node refuses a pod that counts on none; "" if it does not.
func (x *search) refusal(ctx context.Context, p *v1.Pod, node string) (string, error) {
	choice, err := x.cluster.Choose(ctx, p)
	if why, refused := choice.Refused[node]; refused {
		return cmp.Or(why, "it refuses the pod"), err
	}
	return "", err
}
