package fragmentation

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gnnsched/internal/cluster"
)

// Demand is so many pods of a workload that ask for the same.
type Demand struct {
	Requests cluster.Resources
	Models   []string // GPU models that may serve them; empty: any
	Count    float64  // how many, or how often they come relative to the others
}

// Pod is a typical pod.
type Pod struct {
	MilliCPU  int64
	Devices   int64    // GPU devices that it is on; 0 for a pod without
	Milli     int64    // what it takes of each, in thousandths: 1000, or less for a share
	Models    []string // that may serve it; empty: any
	Frequency float64  // over all typical pods it adds up to 1
}

// Cover is the part of a workload's pods that its typical pods are, at least.
const Cover = 0.95

// MaxShapes is how many shapes are typical at most, which bounds what judging a node costs. The
// openb traces have 35 to 74.
const MaxShapes = 512

// Typical are the typical pods of a workload. To its users it does not change; it may be shared.
// The nil value stands for a workload that is not known: nothing is fragmented.
type Typical struct {
	pods []Pod

	// tables are those of the models of nodes, made when first asked for: pods may name any
	// number of models that no node has. The map is replaced, never changed.
	tables atomic.Pointer[map[string]*table]
	making sync.Mutex
}

// NewTypical finds the typical pods of a workload: the shapes (CPU, devices, thousandths,
// models) of the highest counts, equals in the order in which they come, until they cover
// Cover of the pods or are MaxShapes. It is nil where there are none.
func NewTypical(workload []Demand) *Typical {
	pods := count(workload)
	var total, covered float64
	for _, p := range pods {
		total += p.Frequency
	}
	if total == 0 {
		return nil
	}
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(b.Frequency, a.Frequency) })
	for i, p := range pods {
		if covered += p.Frequency; covered >= Cover*total || i+1 == MaxShapes {
			pods = pods[:i+1]
			break
		}
	}
	for i := range pods {
		pods[i].Frequency /= covered
	}
	t := &Typical{pods: pods}
	t.tables.Store(&map[string]*table{})
	return t
}

// count adds up the pods of each shape, in the order in which shapes come.
func count(workload []Demand) []Pod {
	type shape struct {
		cpu, devices, milli int64
		models              string
	}
	row := map[shape]int{}
	var pods []Pod
	for _, d := range workload {
		p := Pod{MilliCPU: d.Requests.MilliCPU, Models: d.Models}
		p.Devices, p.Milli = Devices(d.Requests)
		key := shape{p.MilliCPU, p.Devices, p.Milli, strings.Join(d.Models, "|")}
		i, known := row[key]
		if !known {
			i = len(pods)
			row[key], pods = i, append(pods, p)
		}
		pods[i].Frequency += d.Count
	}
	return pods
}

// Devices is on how many devices a pod is that asks for r, and what it takes of each in
// thousandths.
func Devices(r cluster.Resources) (devices, milli int64) {
	switch {
	case r.GPU > 0:
		return r.GPU, cluster.DeviceMilli
	case r.GPUMilli > 0:
		return 1, r.GPUMilli
	}
	return 0, 0
}

// Pods are the typical pods, the commonest first.
func (t *Typical) Pods() []Pod {
	if t == nil {
		return nil
	}
	return slices.Clone(t.pods)
}
