package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
)

// RunningPod holds the resources and devices that a pod takes of its node.
type RunningPod struct {
	Requests cluster.Resources
	Devices  cluster.DeviceSet // from GPUIndexAnnotation; empty if the pod has none or requests no GPU
}

// Running translates a pod that runs on a node. The error describes the fault of its GPU request; the result then holds the request's
// trustworthy part, as in Pod.
func Running(p *corev1.Pod) (RunningPod, error) { return RunningWith(p, Requests(p)) }

// RunningWith is Running for a caller that already knows the pod's requests.
func RunningWith(p *corev1.Pod, requests Amounts) (RunningPod, error) {
	gpu, err := GPURequestOf(p.Annotations, requests)
	r := RunningPod{Requests: podResources(requests, gpu)}
	if !gpu.None() {
		r.Devices = Devices(p.Annotations)
	}
	return r, err
}

// Place adds the running pods to n. It sorts pods by their GPU requests, largest first, so that the
// result does not depend on their order, and places them as PlaceInOrder does.
func Place(n *cluster.Node, pods []RunningPod) {
	slices.SortStableFunc(pods, LargestFirst)
	PlaceInOrder(n, pods)
}

// LargestFirst compares pods by their GPU requests, the largest first, and then by their devices.
func LargestFirst(a, b RunningPod) int {
	return cmp.Or(cmp.Compare(b.Requests.TotalGPUMilli(), a.Requests.TotalGPUMilli()), cmp.Compare(a.Devices, b.Devices))
}

// PlaceInOrder adds the running pods to n and returns the devices on which it counts each of them.
//
// Pods whose annotation names devices with room for them go on these devices. Then the other pods
// go on the devices that cluster.Node.ChooseDevices chooses: anyone can write the annotation, and
// a device used twice would hide another one that is idle.
func PlaceInOrder(n *cluster.Node, pods []RunningPod) []cluster.DeviceSet {
	on := make([]cluster.DeviceSet, len(pods))
	var rest []int
	for i, p := range pods {
		if p.Requests.TotalGPUMilli() > 0 && n.FitsOn(p.Requests, p.Devices) {
			n.AddOn(p.Requests, p.Devices)
			on[i] = p.Devices
		} else {
			rest = append(rest, i)
		}
	}
	for _, i := range rest {
		on[i] = n.Add(pods[i].Requests)
	}
	return on
}
