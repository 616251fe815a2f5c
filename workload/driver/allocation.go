package driver

import (
	"gnnsched/internal/cluster"
	"gnnsched/workload"
)

// GPUSummary is the GPU part of a fill's outcome. Amounts are in thousandths of a device.
type GPUSummary struct {
	Capacity  int64 `json:"capacity"`  // of the schedulable nodes
	Asked     int64 `json:"asked"`     // requested by the pods that were not deleted
	Allocated int64 `json:"allocated"` // requested by the pods with a node
	// AllocatedAtFull is Allocated at the first arrival with which Asked reached Capacity,
	// counting only pods that had arrived by then. It is 0 if Asked never reached Capacity, or
	// if pods were deleted.
	AllocatedAtFull int64 `json:"allocatedAtFull,omitempty"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods without a node that request a share of one
	UnscheduledWhole int `json:"unscheduledWhole"` // pods without a node that request whole ones
}

// Allocation returns the allocated fraction of the capacity.
func (g GPUSummary) Allocation() float64 { return cluster.Fraction(g.Allocated, g.Capacity) }

// AllocationAtFull returns AllocatedAtFull as a fraction of the capacity.
func (g GPUSummary) AllocationAtFull() float64 {
	return cluster.Fraction(g.AllocatedAtFull, g.Capacity)
}

// Add adds the next Deployment to arrive. bound is the number of its pods that have a node.
func (s *GPUSummary) Add(d workload.Deployment, bound int) {
	each := d.Shape.Requests.TotalGPUMilli()
	s.Asked += each * int64(d.Replicas)
	s.Allocated += each * int64(bound)
	if s.AllocatedAtFull == 0 && s.Asked >= s.Capacity {
		s.AllocatedAtFull = s.Allocated
	}
	switch left := d.Replicas - bound; {
	case d.Shape.Requests.GPU > 0:
		s.UnscheduledWhole += left
	case d.Shape.Requests.GPUMilli > 0:
		s.UnscheduledShare += left
	default:
		s.UnscheduledCPU += left
	}
}

// gpuSummary sums up the fill. It returns nil if the cluster has no GPUs.
func (r *runner) gpuSummary() *GPUSummary {
	s := GPUSummary{Capacity: r.Room.Allocatable.TotalGPUMilli()}
	if s.Capacity == 0 {
		return nil
	}
	for _, d := range r.created {
		if d, ok := r.existing[d.Name]; ok {
			t, _ := r.pods.count(map[string]workload.Deployment{d.Name: d})
			s.Add(d, t.bound)
		}
	}
	if r.fill.Deleted+r.fill.Lost > 0 {
		s.AllocatedAtFull = 0
	}
	return &s
}
