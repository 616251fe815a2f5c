package kube

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
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
	SetGPUs(out, n, allocatable)
	return out
}

// SetGPUs sets the GPU fields of n from its object and the object's allocatable amounts: the number of
// allocatable GPUs, their model, and, if there are at most cluster.MaxDevices, the devices, with nothing
// in use. Devices are numbered by the node's capacity, so that a lost device, which is not allocatable
// any more, does not renumber the others; see CloseLost.
func SetGPUs(n *cluster.Node, object *corev1.Node, allocatable Amounts) {
	n.Allocatable.GPU = allocatable.devices()
	n.GPUs, n.GPUModel = nil, ""
	devices := max(n.Allocatable.GPU, AmountsIn(object.Status.Capacity).devices())
	if devices <= 0 {
		return
	}
	if n.GPUModel = object.Labels[GPUModelLabel]; n.GPUModel == "" {
		n.GPUModel = object.Labels[productLabel]
	}
	if devices <= cluster.MaxDevices {
		n.GPUs = make([]int64, devices)
	}
}

// CloseLost counts devices of n as full that are in its capacity but not in its allocatable amounts, and returns them. Kubernetes tells
// only their number. So devices that pods use stay open, and idle ones are closed: first the devices in before, which were closed before,
// then the highest numbers. If too few are idle, the lost devices are among the used ones, and no more are closed.
func CloseLost(n *cluster.Node, before cluster.DeviceSet) (lost cluster.DeviceSet) {
	missing := int64(len(n.GPUs)) - n.Allocatable.GPU
	for _, candidates := range []cluster.DeviceSet{before, ^before} {
		for i := len(n.GPUs) - 1; i >= 0 && missing > 0; i-- {
			if candidates.Has(i) && n.GPUs[i] == 0 {
				n.GPUs[i] = cluster.DeviceMilli
				lost |= cluster.Device(i)
				missing--
			}
		}
	}
	return lost
}

// PowerAnnotation is a node's annotation with the power of its machine in watts, as JSON:
//
//	{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}
const PowerAnnotation = "gnnsched.io/power"

// maxPower is the longest annotation that is read, in bytes.
const maxPower = 4 << 10

// Power returns the model in a node's annotation; nil without one. Errors are short and free of control characters.
func Power(n *corev1.Node) (*cluster.PowerModel, error) {
	text, has := n.Annotations[PowerAnnotation]
	if !has {
		return nil, nil
	}
	if len(text) > maxPower {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", PowerAnnotation, len(text), maxPower)
	}
	m := &cluster.PowerModel{}
	err := cluster.DecodeStrict([]byte(text), m)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return nil, errors.New("annotation " + PowerAnnotation + ": " + exit.Clean(strings.ReplaceAll(err.Error(), "\n", "; "), 300))
	}
	return m, nil
}

// Snapshot translates a cluster: the nodes, in their order, with the pods that run on them.
// unbound is the number of pods that run on none of the nodes. A pod counts in any phase, so
// callers leave out pods that have finished.
//
// The error names every pod with a contradictory GPU request. The snapshot then counts the trustworthy part of their requests, as Running
// does.
func Snapshot(nodes []corev1.Node, pods []corev1.Pod) (snapshot cluster.Snapshot, unbound int, err error) {
	running := make(map[string][]RunningPod, len(nodes))
	for i := range nodes {
		snapshot.Nodes = append(snapshot.Nodes, Node(&nodes[i]))
		running[nodes[i].Name] = nil
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		if _, known := running[p.Spec.NodeName]; !known {
			unbound++
			continue
		}
		r, err := Running(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
		}
		running[p.Spec.NodeName] = append(running[p.Spec.NodeName], r)
	}
	for _, n := range snapshot.Nodes {
		Place(n, running[n.Name])
		CloseLost(n, 0)
	}
	return snapshot, unbound, errors.Join(errs...)
}
