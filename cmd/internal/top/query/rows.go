package query

import "gnnsched/cmd/internal/top/state"

// NodeRow lets the filter read the fields of a node.
func NodeRow(n *state.Node) Row {
	return Row{
		Texts:   []string{n.Name, n.Status, n.Role(), n.Zone, n.Version, n.GPUModel},
		Amounts: &Amounts{n.CPU, n.Memory, n.GPU, n.Pods},
	}
}

// PendingRow lets the filter read the fields of a pending pod. It has no usage: the pod is on no node.
func PendingRow(p *state.PendingPod) Row {
	return Row{Texts: []string{p.Namespace + "/" + p.Name, p.Workload, p.Scheduler, p.Reason, p.Message}}
}
