package plan

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/memcluster"
)

// maxChains is how many pods are tried as the one that makes room for another.
const maxChains = 24

// exchange is a pod that may make room on its node.
type exchange struct {
	pod  *v1.Pod
	more float64 // fraction of the node that stays unused after it, of CPU or memory, whichever is higher
}

// chain moves a pod that no node takes to the node of another pod, which moves first; the two become steps. It reports whether there is such a
// pair. Tried first are the pods after which least of their node is unused.
func (x *search) chain(ctx context.Context, p *v1.Pod) (bool, error) {
	all, err := x.exchanges(p)
	if err != nil {
		return false, err
	}
	for _, e := range all[:min(len(all), maxChains)] {
		node := e.pod.Spec.NodeName
		x.cluster.Remove(p.UID)
		x.cluster.Remove(e.pod.UID)
		why, err := x.refusal(ctx, p, node)
		if err == nil && why == "" {
			x.cluster.Fix(memcluster.On(p, node))
			var to string
			if to, _, err = x.place(ctx, e.pod); err == nil && to != "" {
				x.steps = append(x.steps, step{pod: e.pod, to: to})
				x.steps = append(x.steps, step{pod: p, to: node, after: len(x.steps)})
				return true, nil
			}
			x.cluster.Remove(p.UID)
			x.cluster.Remove(e.pod.UID)
		}
		x.cluster.Fix(e.pod)
		x.cluster.Fix(p)
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// exchanges returns the pods that would leave enough room for p.
func (x *search) exchanges(p *v1.Pod) (out []exchange, err error) {
	nodes, err := x.cluster.Nodes()
	if err != nil {
		return nil, err
	}
	moved, need := map[types.UID]bool{}, kube.Requests(p)
	for _, s := range x.steps {
		moved[s.pod.UID] = true
	}
	for _, n := range nodes {
		if x.barred[n.Name] {
			continue
		}
		free := n.Free()
		for _, q := range x.pods[n.Name] {
			r := kube.Requests(q)
			cpu, memory := free.MilliCPU+r.MilliCPU-need.MilliCPU, free.Memory+r.Memory-need.Memory
			if cpu < 0 || memory < 0 || moved[q.UID] || x.keeps(q) != "" || r.MilliCPU >= need.MilliCPU && r.Memory >= need.Memory {
				continue // no room, or no gain
			}
			more := max(float64(cpu)/float64(max(n.Allocatable.MilliCPU, 1)), float64(memory)/float64(max(n.Allocatable.Memory, 1)))
			out = append(out, exchange{q, more})
		}
	}
	slices.SortFunc(out, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(a.more, b.more), cmp.Compare(nameOf(a.pod), nameOf(b.pod)), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return out, nil
}
