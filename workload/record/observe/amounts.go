package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
)

// maxQuantity is more than a cluster has of anything else than what most names, in cores, bytes or pieces.
const maxQuantity = 1e15

// most are the largest amounts that a record holds.
var most = map[corev1.ResourceName]int64{corev1.ResourceCPU: cluster.MaxMilliCPU / 1000, corev1.ResourceMemory: cluster.MaxMemory}

// inRange clamps the amounts of a list between 0 and a record's largest amount. It returns an error with the first amount that was outside.
// API servers accept limits such as 1e30 cores. They accept no negative amounts, but a file may have them.
func inRange(field string, l corev1.ResourceList) (first error) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		limit := cmp.Or(most[name], maxQuantity)
		switch {
		case q.Sign() < 0:
			l[name] = *resource.NewQuantity(0, q.Format)
		case q.CmpInt64(limit) > 0:
			l[name] = *resource.NewQuantity(limit, q.Format)
		default:
			continue
		}
		if first == nil {
			first = fmt.Errorf("%s.%s is %s, want 0 to %d", field, exit.Clean(string(name), 100), exit.Clean(q.String(), 40), limit)
		}
	}
	return first
}

// boundPod bounds a pod's requests.
func boundPod(p *corev1.Pod) error {
	first := inRange("spec.overhead", p.Spec.Overhead)
	both := func(at string, r corev1.ResourceRequirements) {
		for _, err := range []error{inRange(at+".requests", r.Requests), inRange(at+".limits", r.Limits)} {
			first = cmp.Or(first, err)
		}
	}
	for c := range kube.Containers(p) {
		both("container "+exit.Quote(c.Name)+": resources", c.Resources)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		at := "the status of container " + exit.Quote(c.Name) + ": "
		if c.Resources != nil {
			both(at+"resources", *c.Resources)
		}
		both(at+"allocated", corev1.ResourceRequirements{Requests: c.AllocatedResources})
	}
	for _, r := range []*corev1.ResourceRequirements{p.Spec.Resources, p.Status.Resources} {
		if r != nil {
			both("resources", *r)
		}
	}
	amounts, _ := kube.Pod(p)
	for _, a := range []cluster.Resources{amounts.Requests, amounts.Limits} {
		if first == nil && (a.MilliCPU > cluster.MaxMilliCPU || a.Memory > cluster.MaxMemory) {
			first = fmt.Errorf("its containers have %d milli-cores and %d bytes together, more than a record holds", a.MilliCPU, a.Memory)
		}
	}
	return first
}

// boundNode bounds a node's capacity.
func boundNode(n *corev1.Node) error {
	return cmp.Or(inRange("status.allocatable", n.Status.Allocatable), inRange("status.capacity", n.Status.Capacity))
}
