package kube

import (
	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
)

// Node translates a node, without the pods that run on it. Its devices are known one by one if it
// has at most cluster.MaxDevices. Its labels are shared with n.
func Node(n *corev1.Node) *cluster.Node { return NodeWith(n, AmountsIn(n.Status.Allocatable)) }

// NodeWith is Node for a caller that has the node's allocatable amounts already.
func NodeWith(n *corev1.Node, allocatable Amounts) *cluster.Node {
	out := &cluster.Node{
		Version:       cluster.NextVersion(),
		Name:          n.Name,
		Zone:          n.Labels[corev1.LabelTopologyZone],
		Labels:        n.Labels,
		Unschedulable: n.Spec.Unschedulable,
		Allocatable:   cluster.Resources{MilliCPU: allocatable.MilliCPU, Memory: allocatable.Memory, Pods: allocatable.Pods},
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
	}
	SetGPUs(out, n.Labels, allocatable)
	return out
}

// SetGPUs sets the GPU fields of n from the labels and the allocatable amounts of its object: the
// number of GPUs, their model, and, if there are at most cluster.MaxDevices, the devices, with
// nothing in use.
func SetGPUs(n *cluster.Node, labels map[string]string, allocatable Amounts) {
	n.Allocatable.GPU = allocatable.devices()
	n.GPUs, n.GPUModel = nil, ""
	if n.Allocatable.GPU <= 0 {
		return
	}
	if n.GPUModel = labels[GPUModelLabel]; n.GPUModel == "" {
		n.GPUModel = labels[productLabel]
	}
	if n.Allocatable.GPU <= cluster.MaxDevices {
		n.GPUs = make([]int64, n.Allocatable.GPU)
	}
}
