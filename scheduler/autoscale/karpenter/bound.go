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

// bound proves that some consolidations are impossible, so that Karpenter need not simulate them. It looks at CPU, memory and the number of
// pods alone. All else that Karpenter looks at forbids more, never less.
type bound struct {
	*store
	types []bargain
	hosts map[cluster.Resources]map[string]bool // the machines that have room for a pod of a size; filled when asked
}

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
// candidates. Pods that no other machine has room for must go on the new one, all together.
func (b *bound) forbids(candidates []*disruption.Candidate) bool {
	price, gone := 0.0, map[string]bool{}
	for _, c := range candidates {
		price += c.Price
		gone[c.Name()] = true
	}
	var need cluster.Resources
	for _, c := range candidates {
		for _, e := range b.machine(c.Name()).pods {
			if podutils.IsReschedulable(e.pod) && !b.elsewhere(e.size, gone) {
				need = need.Plus(e.size)
			}
		}
	}
	return need != cluster.Resources{} && !slices.ContainsFunc(b.types, func(t bargain) bool { return t.price < price && need.Within(t.size) })
}

// elsewhere reports whether a machine that stays has room for a pod.
func (b *bound) elsewhere(pod cluster.Resources, gone map[string]bool) bool {
	hosts, known := b.hosts[pod]
	if !known {
		hosts = map[string]bool{}
		for _, m := range b.machines {
			if m.node != nil && !m.leaves && pod.Within(m.free) { // pods of one that boots would make the simulation fail
				hosts[m.name] = true
			}
		}
		b.hosts[pod] = hosts
	}
	if len(hosts) > len(gone) {
		return true
	}
	for name := range hosts {
		if !gone[name] {
			return true
		}
	}
	return false
}

// sizeOf returns what a pod requests.
func sizeOf(p *corev1.Pod) cluster.Resources {
	out := resourcesOf(kube.Requests(p))
	out.Pods = 1
	return out
}

// plain reports whether only room on untainted machines decides where a pod runs, of CPU and memory.
func plain(p *corev1.Pod) bool {
	s := &p.Spec
	for name := range kube.RequestList(p) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return false
		}
	}
	return s.Affinity == nil && len(s.NodeSelector)+len(s.TopologySpreadConstraints)+len(s.ResourceClaims)+len(kube.HostPorts(p)) == 0
}
