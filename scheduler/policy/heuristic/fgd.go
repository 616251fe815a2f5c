package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
)

var fgd = Heuristic{
	Name:  "fgd",
	About: "fragmentation gradient descent: fragments the GPUs least for the workload's typical pods",
	New:   func(s policy.Setting) policy.Policy { return NewFGD(s.Typical) },
	GPU:   true, TypicalPods: true, NotImitable: needsGPUs,
}

// FGD is fragmentation gradient descent (Weng et al., USENIX ATC 2023). A placement scores
//
//	⌊100 · sigmoid((F(before) - F(after)) / 1000)⌋
//
// where F is the node's fragmentation for the typical pods of the workload, as package
// fragmentation defines it. A share of a device goes to the device with the highest score, the
// first of tied ones. The published figures require that the first of tied nodes is taken.
type FGD struct {
	typical *fragmentation.Typical
	cached  cachedScores
}

// NewFGD returns the policy for a workload's typical pods.
func NewFGD(typical *fragmentation.Typical) *FGD { return &FGD{typical: typical} }

// Name implements policy.Policy.
func (*FGD) Name() string { return "fgd" }

// Score implements policy.Policy.
func (f *FGD) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f.cached.score(s, pod.Requests, candidates, scores, func(n *cluster.Node, r cluster.Resources) int64 {
		score, _ := f.best(n, r)
		return score
	})
	return nil
}

// Devices implements policy.DeviceChooser.
func (f *FGD) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	_, on := f.best(n, pod.Requests)
	return on
}

// best returns the score of the node and the devices that give it.
func (f *FGD) best(n *cluster.Node, r cluster.Resources) (score int64, on cluster.DeviceSet) {
	before := f.typical.Fragmentation(n)
	if r.GPUMilli == 0 {
		on = n.ChooseDevices(r)
		return descent(before, f.typical.After(n, r, on)), on
	}
	score = -1
	for rest := n.DistinctDevices(r.GPUMilli); rest != 0; rest &= rest - 1 {
		device := rest.First()
		if x := descent(before, f.typical.After(n, r, device)); x > score {
			score, on = x, device
		}
	}
	return score, on
}

// descent returns the score of a change of a node's fragmentation.
func descent(before, after float64) int64 {
	return int64(maxNodeScore / (1 + math.Exp((after-before)/cluster.DeviceMilli)))
}

var gpuClustering = Heuristic{
	Name:  "gpu-clustering",
	About: "pods that request the same number of GPUs together",
	New:   fromNodeScore("gpu-clustering", clustering),
	GPU:   true, NotImitable: needsGPUs,
}

// clustering keeps similar pods together: pods that request the same number of GPUs, or all pods
// that request a share of one. A pod without GPUs scores 0 everywhere. Any other pod scores by the
// pods with GPUs that the node runs:
//
//	75 to 100  only similar ones
//	50 to 75   similar ones and others
//	25 to 50   none
//	0 to 25    only others
//
// Within a band the score rises with the allocation of the node's devices after placement.
func clustering(n *cluster.Node, r cluster.Resources) int64 {
	if r.TotalGPUMilli() == 0 {
		return 0
	}
	similar, others := false, false
	for _, g := range n.Groups {
		switch {
		case g.Each.TotalGPUMilli() == 0:
		case g.Each.GPU == r.GPU:
			similar = true
		default:
			others = true
		}
	}
	band := int64(0)
	switch {
	case similar && !others:
		band = 75
	case similar:
		band = 50
	case !others:
		band = 25
	}
	total := cluster.DeviceMilli * int64(len(n.GPUs))
	return band + int64(25*cluster.Fraction(total-n.IdleGPUMilli()+r.TotalGPUMilli(), total))
}

var gpuPacking = Heuristic{
	Name:  "gpu-packing",
	About: "devices in use before idle devices, and idle nodes last",
	New:   fromNodeScore("gpu-packing", packing),
	GPU:   true, NotImitable: needsGPUs,
}

// packing prefers devices in use, then idle devices of nodes in use, then idle nodes. A pod without
// GPUs scores 0 everywhere. Any other pod scores
//
//	on devices in use   100 - a tenth of the percentage that they have left, at least 50
//	on k idle devices   50 - k, at least 33, if other devices of the node are in use
//	on an idle node     33 - the number of its devices
func packing(n *cluster.Node, r cluster.Resources) int64 {
	on := n.ChooseDevices(r)
	if on == 0 {
		return 0
	}
	var idle int64 // number of idle devices that the pod would use
	var free int64 // room on the devices in use that the pod would use
	for i, used := range n.GPUs {
		switch {
		case !on.Has(i):
		case used == 0:
			idle++
		default:
			free += cluster.DeviceMilli - used
		}
	}
	switch devices := int64(len(n.GPUs)); {
	case n.IdleDevices() == devices:
		return max(33-devices, 0)
	case idle > 0:
		return max(50-idle, 33)
	}
	return max(maxNodeScore-free/100, 50)
}

var gpuBestFit = Heuristic{
	Name:  "gpu-best-fit",
	About: "the node with the least CPU and GPU left",
	New:   fromNodeScore("gpu-best-fit", leastGPULeft),
	GPU:   true, NotImitable: needsGPUs,
}

// leastGPULeft prefers the node with the least CPU and GPU left after placement:
//
//	⌊100 · (1 - ½·CPU left / 128 cores - ½·GPU left / 8 devices)⌋
func leastGPULeft(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	return int64(maxNodeScore * (1 - (cpu-float64(r.MilliCPU))/(2*largestMilliCPU) - (gpu-float64(r.TotalGPUMilli()))/(2*largestGPUMilli)))
}

var gpuDotProduct = Heuristic{
	Name:  "gpu-dot-product",
	About: "the node whose free CPU and GPU are least aligned with the pod's requests",
	New:   fromNodeScore("gpu-dot-product", gpuMisalignment),
	GPU:   true, NotImitable: needsGPUs,
}

// gpuMisalignment prefers the node whose resources left before placement have the smallest dot
// product with the pod's requests:
//
//	⌊100 · (1 - ½·(CPU left · pod's CPU / (128 cores)² + GPU left · pod's GPU / (8 devices)²))⌋
func gpuMisalignment(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	along := cpu*float64(r.MilliCPU)/(largestMilliCPU*largestMilliCPU) + gpu*float64(r.TotalGPUMilli())/(largestGPUMilli*largestGPUMilli)
	return int64(maxNodeScore * (1 - along/2))
}
