//go:build !service && !k136

package karpenter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// bargain is the size of a type of machine, with its least price.
type bargain struct {
	size  cluster.Resources
	price float64
}

func resourcesOf(a kube.Amounts) cluster.Resources {
	return cluster.Resources{MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods}
}

// bargains returns the types of machines.
func (p *provider) bargains() (out []bargain) {
	for _, types := range p.types {
		for _, it := range types {
			x := bargain{size: resourcesOf(kube.AmountsIn(it.Allocatable())), price: it.Offerings[0].Price}
			for _, o := range it.Offerings {
				x.price = min(x.price, o.Price)
			}
			out = append(out, x)
		}
	}
	return out
}

// forbids reports whether the pods of candidates surely need more than the other machines and one new machine that is cheaper than the
// candidates, so that Karpenter need not simulate it. Pods that no other machine has room for must go on the new one, all together. It
// looks at CPU, memory and the number of pods alone. All else that Karpenter looks at forbids more, never less.
func (s *scaler) forbids(candidates []*disruption.Candidate) bool {
	price, gone := 0.0, map[string]bool{}
	for _, c := range candidates {
		price += c.Price
		gone[c.Name()] = true
	}
	var need cluster.Resources
	for name := range gone {
		for _, e := range s.store.machine(name).pods {
			takes := func(m *machine) bool { // pods of one that boots would make the simulation fail
				return m.node != nil && !m.leaves && e.size.Within(m.free) && !gone[m.name]
			}
			if podutils.IsReschedulable(e.pod) && !slices.ContainsFunc(s.store.machines, takes) {
				need = need.Plus(e.size)
			}
		}
	}
	return need != cluster.Resources{} && !slices.ContainsFunc(s.types, func(t bargain) bool { return t.price < price && need.Within(t.size) })
}

// sizeOf returns what a pod requests.
func sizeOf(p *corev1.Pod) cluster.Resources {
	out := resourcesOf(kube.Requests(p))
	out.Pods = 1
	return out
}

// sized reports whether a pod requests CPU and memory alone.
func sized(p *corev1.Pod) bool {
	for name := range kube.RequestList(p) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return false
		}
	}
	return true
}

// plain reports whether only room decides on which of the untainted machines a pod can run.
func plain(p *corev1.Pod) bool {
	s := &p.Spec
	bounds := len(s.NodeSelector) + len(s.TopologySpreadConstraints) + len(s.ResourceClaims) + len(kube.HostPorts(p))
	return sized(p) && s.Affinity == nil && bounds == 0
}
