package fragmentation

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gnnsched/internal/cluster"
)

// Demand is a number of pods of a workload with equal requests.
type Demand struct {
	Requests    cluster.Resources
	Models      []string             // GPU models that the pods accept; empty: any
	Tolerations []cluster.Toleration // of taints
	Count       float64              // number of pods, or their frequency relative to other demands
}

// Pod is a typical pod.
type Pod struct {
	MilliCPU  int64    // requested thousandths of a core
	Devices   int64    // requested GPU devices; 0 for a pod without GPU
	Milli     int64    // requested thousandths of each device: 1000, or less for a share
	Models    []string // GPU models that the pod accepts; empty: any
	Frequency float64  // relative; the frequencies of all typical pods add up to 1

	kinds  Access    // the kinds of tolerations that pods of this shape have
	shares []float64 // by kind: the share of these pods that has it
}

// cover is the fraction of a workload's pods that its typical pods represent, at least.
const cover = 0.95

// maxShapes bounds the number of typical pods, and so the time to measure a node. The openb traces
// have 35 to 74 shapes.
const maxShapes = 512

// Typical holds the typical pods of a workload. It is safe for concurrent use. The nil value stands
// for an unknown workload, for which nothing is fragmented.
type Typical struct {
	pods   []Pod
	shapes []Pod // all of the workload's

	kinds    [][]cluster.Toleration // the tolerations of each kind
	gpuKinds Access                 // the kinds that pods with GPUs have

	// tables holds a table for each GPU model and access of the measured nodes. Models that only pods name have none. The map is replaced,
	// never modified; making guards the replacement.
	tables atomic.Pointer[map[tableKey]*table]
	making sync.Mutex
}

// NewTypical finds the typical pods of a workload. It takes its shapes (CPU, devices, thousandths and models, without tolerations) by
// descending count, equal counts in their order in workload, until they cover 95 % of the pods or there are 512. It returns nil if the
// workload has no pods.
func NewTypical(workload []Demand) *Typical {
	pods, kinds := count(workload)
	var total, covered float64
	for _, p := range pods {
		total += p.Frequency
	}
	if total == 0 {
		return nil
	}
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(b.Frequency, a.Frequency) })
	shapes := slices.Clone(pods)
	for i := range shapes {
		shapes[i].Frequency /= total
	}
	for i, p := range pods {
		if covered += p.Frequency; covered >= cover*total || i+1 == maxShapes {
			pods = pods[:i+1]
			break
		}
	}
	for i := range pods {
		pods[i].Frequency /= covered
	}
	t := &Typical{pods: pods, shapes: shapes, kinds: kinds}
	for i := range shapes {
		if shapes[i].Devices > 0 {
			t.gpuKinds |= shapes[i].kinds
		}
	}
	t.tables.Store(&map[tableKey]*table{})
	return t
}

// count adds up the pods of each shape. The result has the order of first appearance; Frequency
// holds the counts.
func count(workload []Demand) (pods []Pod, kinds [][]cluster.Toleration) {
	type shape struct {
		cpu, devices, milli int64
		models              string
	}
	row := map[shape]int{}
	numbers := newKinds()
	for _, d := range workload {
		p := Pod{MilliCPU: d.Requests.MilliCPU, Models: d.Models}
		p.Devices, p.Milli = Devices(d.Requests)
		key := shape{p.MilliCPU, p.Devices, p.Milli, strings.Join(d.Models, "|")}
		i, known := row[key]
		if !known {
			i = len(pods)
			row[key] = i
			pods = append(pods, p)
		}
		pods[i].Frequency += d.Count
		pods[i].add(numbers.of(d.Tolerations), d.Count)
	}
	for i := range pods {
		for k := range pods[i].shares {
			pods[i].shares[k] /= pods[i].Frequency
		}
	}
	return pods, numbers.list
}

// Devices returns the number of devices of a pod that requests r, and the thousandths of each that
// it takes.
func Devices(r cluster.Resources) (devices, milli int64) {
	switch {
	case r.GPU > 0:
		return r.GPU, cluster.DeviceMilli
	case r.GPUMilli > 0:
		return 1, r.GPUMilli
	}
	return 0, 0
}

// Pods returns the typical pods, the most frequent first.
func (t *Typical) Pods() []Pod {
	if t == nil {
		return nil
	}
	return slices.Clone(t.pods)
}

// Shapes returns all of the workload's shapes, the most frequent first, with their frequencies among all
// pods. Rare ones are not typical but may request many devices.
func (t *Typical) Shapes() []Pod {
	if t == nil {
		return nil
	}
	return slices.Clone(t.shapes)
}
