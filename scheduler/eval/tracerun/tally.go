package tracerun

import (
	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// tally counts the pods of a round with driver.Mixed by how they request GPUs.
type tally struct {
	Claims      kind `json:"claims"`
	Extended    kind `json:"extendedResources"`
	Annotations kind `json:"annotations"`

	Shared int `json:"nodesWithAllKinds"` // nodes on which pods of all three kinds run
}

// kind counts the pods that request GPUs in one way.
type kind struct {
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
}

// tallyOf counts the arrivals of a round. at holds their places.
func tallyOf(arrivals []openb.Pod, at map[string]place) *tally {
	t := &tally{}
	kinds := map[driver.GPURequests]*kind{driver.Claimed: &t.Claims, driver.Extended: &t.Extended, driver.Annotated: &t.Annotations}
	on := map[string]map[driver.GPURequests]bool{}
	for i := range arrivals {
		shape := arrivals[i].Shape()
		if shape.Requests.TotalGPUMilli() == 0 {
			continue
		}
		way := driver.Mixed.Of(workload.Deployment{Name: arrivals[i].Name, Shape: shape})
		kinds[way].Pods++
		p, bound := at[arrivals[i].Name]
		if !bound {
			continue
		}
		kinds[way].Bound++
		if on[p.node] == nil {
			on[p.node] = map[driver.GPURequests]bool{}
		}
		on[p.node][way] = true
	}
	for _, ways := range on {
		if len(ways) == len(kinds) {
			t.Shared++
		}
	}
	return t
}

// bound is the fraction of the pods that have a node.
func (k kind) bound() float64 { return cluster.Fraction(int64(k.Bound), int64(k.Pods)) }

// tallyColumns are the columns of a report with tallies, after the allocations.
var tallyColumns = []column{
	{"claims bound %", func(t Trial) float64 { return 100 * t.Tally.Claims.bound() }, "%.1f", false},
	{"extended bound %", func(t Trial) float64 { return 100 * t.Tally.Extended.bound() }, "%.1f", false},
	{"annotations bound %", func(t Trial) float64 { return 100 * t.Tally.Annotations.bound() }, "%.1f", false},
	{"machines with all three", func(t Trial) float64 { return float64(t.Tally.Shared) }, "%.1f", false},
	{"unscheduled", func(t Trial) float64 { return float64(t.Pods - t.Bound) }, "%.1f", true},
	{"pods/s", func(t Trial) float64 { return float64(t.Bound) / max(t.Binding.Seconds(), 1e-9) }, "%.0f", false},
}
