package driver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
)

// Room is the capacity of a cluster for a workload.
type Room struct {
	Nodes       int               // schedulable nodes
	Excluded    int               // nodes that are cordoned or have a taint that no shape tolerates
	Allocatable cluster.Resources // of the schedulable nodes
	Used        cluster.Resources // requested by the pods that are bound to them
}

// Load returns the load of the present pods.
func (r Room) Load() workload.Load { return workload.LoadOf(r.Used, r.Allocatable) }

// Measure returns the capacity of the nodes that accept pods with the tolerations, and its used part. GPUs come from the nodes' capacity or
// their ResourceSlices.
func Measure(ctx context.Context, client kubernetes.Interface, tolerations []cluster.Toleration) (Room, error) {
	var r Room
	inSlices, err := gpusInSlices(ctx, client)
	if err != nil {
		return r, err
	}
	counted := map[string]bool{}
	err = each(ctx, client.CoreV1().Nodes().List, metav1.ListOptions{}, func(o *corev1.Node) {
		n := kube.Node(o)
		if !n.Admits(tolerations) {
			r.Excluded++
			return
		}
		counted[n.Name] = true
		r.Nodes++
		if n.Allocatable.TotalGPUMilli() == 0 { // else they are the same GPUs
			n.Allocatable.GPU = inSlices[n.Name]
		}
		r.Allocatable = r.Allocatable.Plus(n.Allocatable)
	})
	if err != nil {
		return Room{}, fmt.Errorf("list the nodes: %w", err)
	}
	running := metav1.ListOptions{FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
	err = each(ctx, client.CoreV1().Pods(metav1.NamespaceAll).List, running, func(p *corev1.Pod) {
		if counted[p.Spec.NodeName] && !kube.Finished(p) {
			running, _ := kube.Running(p) // if annotations contradict the resources, the resources count
			r.Used = r.Used.Plus(running.Requests)
		}
	})
	if err != nil {
		return Room{}, fmt.Errorf("list the pods: %w", err)
	}
	return r, nil
}

// gpusInSlices returns the number of GPUs in the ResourceSlices of each node. Clusters before Kubernetes 1.34 have none, and a user who may
// not read them does not need them.
func gpusInSlices(ctx context.Context, client kubernetes.Interface) (map[string]int64, error) {
	var all []resourceapi.ResourceSlice
	err := each(ctx, client.ResourceV1().ResourceSlices().List, metav1.ListOptions{}, func(s *resourceapi.ResourceSlice) {
		all = append(all, *s)
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	return kube.GPUsInSlices(all), nil
}
