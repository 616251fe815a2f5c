package cluster

// Snapshot is the state of a cluster at one decision. The order of its nodes changes between
// decisions only if a node joins or leaves.
type Snapshot struct {
	Nodes []*Node
	Now   float64 // time of the decision in seconds, from any beginning; the age of measured usage is relative to it
	Peers []Peer  // of the pending pod, by ascending row; nil if they are not known
	// Beyond holds the running pods two steps away, by ascending row. The pending pod exchanges data with a workload, that workload with
	// them, and they not with the pod. Rate is the traffic between the pod and the workload, divided among these pods.
	Beyond []Peer
	// Preferred is the number of candidates of the pending pod that preferences leave to a policy; 0 if it is not known.
	Preferred int
}

// Feasible appends to rows the indices of the nodes that p fits, in ascending order.
func (s *Snapshot) Feasible(p *Pod, rows []int32) []int32 {
	for i, n := range s.Nodes {
		if n.Fit(p) == Fits {
			rows = append(rows, int32(i))
		}
	}
	return rows
}
