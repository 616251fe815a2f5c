package autoscale

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gnnsched/internal/cluster/kube"
)

// holds reports whether there is as much of everything.
func holds(a, b kube.Quantities) bool {
	for name, n := range b {
		if n > a[name] {
			return false
		}
	}
	return true
}

// sizes remembers what pods request. Pods that were made from one template share their containers, and so their entry.
type sizes map[*v1.Container]size

// size tells whether a pod has room on a node, its own constraints aside.
type size struct {
	amounts kube.Quantities
	alone   bool // no two of its kind may share a node
}

func (s sizes) of(p *v1.Pod) size {
	if len(p.Spec.Containers) == 0 {
		return size{amounts: kube.Quantities{v1.ResourcePods: 1}}
	}
	key := &p.Spec.Containers[0]
	out, known := s[key]
	if !known {
		out = size{kube.QuantitiesOf(p), alone(p)}
		s[key] = out
	}
	return out
}

// alone reports whether the pod may not share a node with another one of its labels.
func alone(p *v1.Pod) bool {
	if len(kube.HostPorts(p)) > 0 {
		return true
	}
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if t.TopologyKey == v1.LabelHostname && err == nil && selector.Matches(labels.Set(p.Labels)) {
			return true
		}
	}
	return false
}

// bin is a node to which pods are added in thought.
type bin struct {
	node  *v1.Node
	left  kube.Quantities
	alone map[*v1.Container]bool // kinds of which it can hold no second pod
}

// newBin returns a node with its pods.
func (s sizes) newBin(n *v1.Node, pods []*v1.Pod) *bin {
	b := &bin{node: n, left: kube.QuantitiesIn(n.Status.Allocatable), alone: map[*v1.Container]bool{}}
	for _, p := range pods {
		b.put(p, s.of(p))
	}
	return b
}

func (b *bin) put(p *v1.Pod, x size) {
	b.left.Add(x.amounts, -1)
	if x.alone {
		b.alone[&p.Spec.Containers[0]] = true
	}
}

// drop takes a pod away.
func (b *bin) drop(p *v1.Pod, x size) {
	if b.left.Add(x.amounts, 1); x.alone {
		delete(b.alone, &p.Spec.Containers[0])
	}
}

// takes reports whether a pod fits.
func (b *bin) takes(p *v1.Pod, x size) bool {
	return holds(b.left, x.amounts) && !(x.alone && b.alone[&p.Spec.Containers[0]]) && Admits(p, b.node)
}

// take adds a pod if it fits, and reports whether it did.
func (b *bin) take(p *v1.Pod, x size) bool {
	if !b.takes(p, x) {
		return false
	}
	b.put(p, x)
	return true
}

// could reports whether a pod fits on the node beside what is there, if it were alone of its kind.
func (b *bin) could(p *v1.Pod, known sizes) bool {
	return holds(b.left, known.of(p).amounts) && Admits(p, b.node)
}
