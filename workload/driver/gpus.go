package driver

import "gnnsched/internal/cluster"

// GPUSummary is how a fill went for the GPUs of the schedulable nodes, in thousandths of a
// device.
type GPUSummary struct {
	Capacity  int64 `json:"capacity"`
	Asked     int64 `json:"asked"`     // by the pods that were not deleted
	Allocated int64 `json:"allocated"` // to those of them that have a node
	// AllocatedAtFull is what was given to the pods that came until they had asked for as much
	// as there is. It is 0 where they never did, and where pods left.
	AllocatedAtFull int64 `json:"allocatedAtFull,omitempty"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that ask for no GPU
	UnscheduledShare int `json:"unscheduledShare"` // for a share of a device
	UnscheduledWhole int `json:"unscheduledWhole"` // for whole devices
}

// Allocation is the fraction of the capacity that is given.
func (g GPUSummary) Allocation() float64 { return cluster.Fraction(g.Allocated, g.Capacity) }

// AllocationAtFull is the fraction of AllocatedAtFull.
func (g GPUSummary) AllocationAtFull() float64 {
	return cluster.Fraction(g.AllocatedAtFull, g.Capacity)
}

// gpus sums the fill up; nil where there is no GPU.
func (r *runner) gpus() *GPUSummary {
	s := GPUSummary{Capacity: r.Room.Allocatable.TotalGPUMilli()}
	if s.Capacity == 0 {
		return nil
	}
	for _, d := range r.order {
		if _, stays := r.live[d.Name]; !stays {
			continue
		}
		bound := r.pods.bound(d.Name)
		each := d.Shape.Requests.TotalGPUMilli()
		s.Asked += each * int64(d.Replicas)
		s.Allocated += each * int64(bound)
		if r.fill.Deleted == 0 && s.AllocatedAtFull == 0 && s.Asked >= s.Capacity {
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
	return &s
}
