package gpu

import (
	"cmp"
	"slices"
	"strings"

	"gnnsched/scheduler/cluster"
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

// Typical are the typical pods of a workload. It does not change and may be shared. The nil
// value stands for a workload that is not known: nothing is fragmented.
type Typical struct {
	pods   []Pod
	models map[string]*table // for each model that a pod names
	other  *table            // for the models that none does
}

// NewTypical finds the typical pods of a workload: the shapes (CPU, devices, thousandths,
// models) of the highest counts, equals in the order in which they come, until they cover
// Cover of the pods. It is nil where there are none.
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
		if covered += p.Frequency; covered >= Cover*total {
			pods = pods[:i+1]
			break
		}
	}
	for i := range pods {
		pods[i].Frequency /= covered
	}
	t := &Typical{pods: pods, models: map[string]*table{}, other: newTable(pods, "")}
	for _, p := range pods {
		for _, m := range p.Models {
			if t.models[m] == nil {
				t.models[m] = newTable(pods, m)
			}
		}
	}
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
