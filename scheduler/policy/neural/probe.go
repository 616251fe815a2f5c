package neural

import (
	"errors"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// ErrFails is in the error of a network that fails in a decision.
var ErrFails = errors.New("the network fails in a trial decision")

// Decision is a question that a network must be able to answer: which of the nodes Candidates is the best for Pod.
type Decision struct {
	Snapshot   *cluster.Snapshot
	Pod        *cluster.Pod
	Candidates []int32                // rows of Snapshot.Nodes
	Typical    *fragmentation.Typical // the workload's typical pods; nil if they are not known
}

// Try lets the checkpoint's network score decisions that every network must be able to make, and further ones. The error wraps ErrFails
// if it gives a score that is not finite, or panics. No deadline holds.
func Try(c *checkpoint.Checkpoint, more ...Decision) error {
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	for _, d := range append(standard(), more...) {
		if err := try(net, d); err != nil {
			return fmt.Errorf("%w: %w", ErrFails, err)
		}
	}
	return nil
}

// try makes one decision.
func try(net *infer.Network, d Decision) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	return New("probe", net, d.Typical).Score(d.Snapshot, d.Pod, d.Candidates, make([]float32, len(d.Candidates)))
}

// standard returns decisions about pods with and without GPUs, on machines with and without them, from idle to nearly full.
func standard() (out []Decision) {
	s := &cluster.Snapshot{}
	for i, cores := range []int64{4, 16, 64, 128, 8, 96, 96, 32} {
		n := &cluster.Node{
			Name: fmt.Sprint("probe-", i), Zone: []string{"a", "b", "c"}[i%3], Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 1000 * cores, Memory: cores << 32, Pods: 110},
		}
		if cores >= 64 {
			n.Allocatable.GPU, n.GPUs, n.GPUModel = 8, make([]int64, 8), []string{"A100", "T4"}[i%2]
		}
		for range 2 * i { // 0 to 7 sixteenths of its cores
			n.Add(cluster.Resources{MilliCPU: 31 * cores, Memory: cores << 27, Pods: 1})
		}
		if n.GPUs != nil && i%2 == 1 {
			n.Add(cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: 4, Pods: 1})
			n.Add(cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPUMilli: 300, Pods: 1})
		}
		s.Nodes = append(s.Nodes, n)
	}
	requests := []cluster.Resources{
		{MilliCPU: 100, Memory: 128 << 20, Pods: 1}, {MilliCPU: 3000, Memory: 8 << 30, Pods: 1}, {Pods: 1},
		{MilliCPU: 1000, Memory: 4 << 30, GPUMilli: 500, Pods: 1}, {MilliCPU: 8000, Memory: 64 << 30, GPU: 2, Pods: 1},
	}
	var demands []fragmentation.Demand
	for _, r := range requests {
		demands = append(demands, fragmentation.Demand{Requests: r, Count: 1})
	}
	typical := fragmentation.NewTypical(demands)
	s.Demand = &cluster.Demand{}
	for i := range requests {
		p := &cluster.Pod{Requests: requests[i]}
		s.Demand.Arrive(cluster.KindKey(p), p)
	}
	for i := range requests {
		p := &cluster.Pod{Name: "probe", Requests: requests[i]}
		out = append(out, Decision{Snapshot: s, Pod: p, Candidates: s.Feasible(p, nil), Typical: typical})
	}
	return out
}
