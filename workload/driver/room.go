package driver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	resourcehelper "k8s.io/component-helpers/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
)

// Room is what a cluster offers to a workload.
type Room struct {
	Nodes       int               // schedulable ones
	Excluded    int               // cordoned, or with a taint that no shape tolerates
	Allocatable cluster.Resources // of the schedulable nodes
	Used        cluster.Resources // what pods bound to them ask for
}

// Load is what others ask for already.
func (r Room) Load() workload.Load { return workload.LoadOf(r.Used, r.Allocatable) }

// Measure reads the nodes on which pods with the tolerations may land, and the pods there.
func Measure(ctx context.Context, client kubernetes.Interface, tolerations []cluster.Toleration) (Room, error) {
	var r Room
	counted := map[string]bool{}
	nodes := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Nodes().List(ctx, o)
	})
	err := nodes.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		n := o.(*corev1.Node)
		if n.Spec.Unschedulable || !tolerated(n.Spec.Taints, tolerations) {
			r.Excluded++
			return nil
		}
		counted[n.Name] = true
		r.Nodes++
		offers := cluster.Node{Allocatable: amounts(n.Status.Allocatable, n.Status.Allocatable.Pods().Value())}
		kube.SetDevices(&offers, n.Labels, kube.In(n.Status.Allocatable))
		r.Allocatable = r.Allocatable.Plus(offers.Allocatable)
		return nil
	})
	if err != nil {
		return Room{}, fmt.Errorf("list the nodes: %w", err)
	}
	pods := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
	})
	running := metav1.ListOptions{FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
	err = pods.EachListItem(ctx, running, func(o runtime.Object) error {
		p := o.(*corev1.Pod)
		if counted[p.Spec.NodeName] && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			asks := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
			used := amounts(asks, 1)
			gpu, _ := kube.OfPod(p.Annotations, kube.In(asks)) // what contradicts itself has what it requests
			used.GPU, used.GPUMilli = gpu.GPU, gpu.GPUMilli
			r.Used = r.Used.Plus(used)
		}
		return nil
	})
	if err != nil {
		return Room{}, fmt.Errorf("list the pods: %w", err)
	}
	return r, nil
}

func amounts(l corev1.ResourceList, pods int64) cluster.Resources {
	return cluster.Resources{MilliCPU: l.Cpu().MilliValue(), Memory: l.Memory().Value(), Pods: pods}
}

// tolerated tells whether every taint that keeps pods off has a toleration.
func tolerated(taints []corev1.Taint, tolerations []cluster.Toleration) bool {
	for _, t := range taints {
		x := cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)}
		if x.Effect == cluster.PreferNoSchedule {
			continue
		}
		ok := false
		for _, tol := range tolerations {
			ok = ok || tol.Tolerates(x)
		}
		if !ok {
			return false
		}
	}
	return true
}
