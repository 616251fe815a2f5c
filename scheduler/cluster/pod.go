package cluster

// Pod is a pod that waits for a node.
type Pod struct {
	Name         string
	Namespace    string
	Requests     Resources         // Pods is 1
	NodeSelector map[string]string // labels that the node must carry
	Tolerations  []Toleration
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
	TooManyPods  Reason = "too many pods"
	NoCPU        Reason = "insufficient cpu"
	NoMemory     Reason = "insufficient memory"
	NoGPU        Reason = "insufficient gpu"
)

// Fit applies kube-scheduler's filters as far as these values know them: cordoned nodes,
// taints, node selector and resources.
func (n *Node) Fit(p *Pod) Reason {
	if n.Unschedulable {
		return Cordoned
	}
	for _, t := range n.Taints {
		if t.Effect != PreferNoSchedule && !p.tolerates(t) {
			return Untolerated
		}
	}
	for k, v := range p.NodeSelector {
		if got, ok := n.Labels[k]; !ok || got != v {
			return SelectorMiss
		}
	}
	free := n.Free()
	switch {
	case free.Pods < 1:
		return TooManyPods
	case !fits(p.Requests.MilliCPU, free.MilliCPU):
		return NoCPU
	case !fits(p.Requests.Memory, free.Memory):
		return NoMemory
	case !fits(p.Requests.GPU, free.GPU):
		return NoGPU
	}
	return Fits
}

// Available tells whether pods that tolerate nothing may run on the node, as they may not on
// a control-plane node.
func (n *Node) Available() bool {
	for _, t := range n.Taints {
		if t.Effect != PreferNoSchedule {
			return false
		}
	}
	return !n.Unschedulable
}

func (p *Pod) tolerates(x Taint) bool {
	for _, t := range p.Tolerations {
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
