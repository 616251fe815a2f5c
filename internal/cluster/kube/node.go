package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
)

// product is the label in which NVIDIA's feature discovery names the model.
const product = "nvidia.com/gpu.product"

// SetDevices sets what n has of GPUs by its object: how many, of which model, and, for up to
// cluster.MaxDevices, that nobody uses any of them.
func SetDevices(n *cluster.Node, labels map[string]string, allocatable func(corev1.ResourceName) int64) {
	n.Allocatable.GPU = allocatable(Whole)
	if n.Allocatable.GPU == 0 {
		n.Allocatable.GPU = allocatable(Count)
	}
	if n.Allocatable.GPU == 0 {
		n.Allocatable.GPU = allocatable(Milli) / cluster.DeviceMilli
	}
	n.GPUs, n.GPUModel = nil, ""
	if n.Allocatable.GPU <= 0 {
		return
	}
	if n.GPUModel = labels[Model]; n.GPUModel == "" {
		n.GPUModel = labels[product]
	}
	if n.Allocatable.GPU <= cluster.MaxDevices {
		n.GPUs = make([]int64, n.Allocatable.GPU)
	}
}

// Indexed tells whether a node uses the words for shares, so that its pods are to know their
// devices.
func Indexed(allocatable func(corev1.ResourceName) int64) bool {
	return allocatable(Milli) > 0 || allocatable(Count) > 0
}

// Offer adds devices to what a node offers.
func Offer(to corev1.ResourceList, devices int64) {
	to[Whole] = *resource.NewQuantity(devices, resource.DecimalSI)
	to[Count] = *resource.NewQuantity(devices, resource.DecimalSI)
	to[Milli] = *resource.NewQuantity(devices*cluster.DeviceMilli, resource.DecimalSI)
}

// In reads amounts of a list of resources, for OfPod and SetDevices.
func In(list corev1.ResourceList) func(corev1.ResourceName) int64 {
	return func(name corev1.ResourceName) int64 {
		q := list[name]
		return q.Value()
	}
}
