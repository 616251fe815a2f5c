package cluster

import "slices"

// Pod is a pod that waits for a node.
type Pod struct {
	Name         string
	Namespace    string
	Requests     Resources         // Pods is 1
	NodeSelector map[string]string // labels that the node must carry
	Tolerations  []Toleration
	GPUModels    []string // GPU models that may serve it; empty: any
}

// Snapshot is the state of a cluster at one decision. The slice order is stable between
// decisions while no node joins or leaves.
type Snapshot struct {
	Nodes []*Node
}

// Reason is why a pod does not fit a node; empty when it does.
type Reason string

// The reasons, in the order in which they are checked.
const (
	Fits         Reason = ""
	Cordoned     Reason = "node is unschedulable"
	Untolerated  Reason = "untolerated taint"
	SelectorMiss Reason = "node selector does not match"
	WrongModel   Reason = "gpu model does not match"
	TooManyPods  Reason = "too many pods"
	NoCPU        Reason = "insufficient cpu"
	NoMemory     Reason = "insufficient memory"
	NoGPU        Reason = "insufficient gpu"
	NoDevice     Reason = "no gpu device with room for the share"
)

// Fit applies kube-scheduler's filters as far as these values know them: cordoned nodes,
// taints, node selector, GPU models and resources. Whole GPUs need as many idle devices, a share
// one device with room; where the devices are not known, whole GPUs are counted and no share
// fits.
func (n *Node) Fit(p *Pod) Reason {
	if n.Unschedulable {
		return Cordoned
	}
	for _, t := range n.Taints {
		if t.Effect != PreferNoSchedule && !tolerated(p.Tolerations, t) {
			return Untolerated
		}
	}
	for k, v := range p.NodeSelector {
		if got, ok := n.Labels[k]; !ok || got != v {
			return SelectorMiss
		}
	}
	if len(p.GPUModels) > 0 && !slices.Contains(p.GPUModels, n.GPUModel) {
		return WrongModel
	}
	r := &p.Requests
	switch {
	case n.Requested.Pods >= n.Allocatable.Pods:
		return TooManyPods
	case !fits(r.MilliCPU, n.Allocatable.MilliCPU-n.Requested.MilliCPU):
		return NoCPU
	case !fits(r.Memory, n.Allocatable.Memory-n.Requested.Memory):
		return NoMemory
	case r.GPU > 0 && !n.fitsDevices(r):
		return NoGPU
	case r.GPUMilli > 0 && !n.fitsDevices(r):
		return NoDevice
	}
	return Fits
}

// Available reports whether the node admits pods without tolerations. Control-plane nodes do not.
func (n *Node) Available() bool { return n.Admits(nil) }

// Admits reports whether the node admits pods with the given tolerations: it is not cordoned, and
// each of its taints, except those with the effect PreferNoSchedule, is tolerated.
func (n *Node) Admits(tolerations []Toleration) bool {
	for _, t := range n.Taints {
		if t.Effect != PreferNoSchedule && !tolerated(tolerations, t) {
			return false
		}
	}
	return !n.Unschedulable
}

func tolerated(tolerations []Toleration, x Taint) bool {
	for _, t := range tolerations {
		if t.Tolerates(x) {
			return true
		}
	}
	return false
}

// Feasible appends to rows the indices of the nodes that p fits on, in order.
func (s *Snapshot) Feasible(p *Pod, rows []int32) []int32 {
	for i, n := range s.Nodes {
		if n.Fit(p) == Fits {
			rows = append(rows, int32(i))
		}
	}
	return rows
}
