package policy

import "gnnsched/internal/cluster"

// The largest machine, by which the published GPU policies measure.
const (
	largestMilliCPU = 128_000
	largestGPUMilli = 8 * cluster.DeviceMilli
)

// GPUPolicy is one of the policies that FGD was published beside (Weng et al., USENIX ATC
// 2023). Its score of a node is an integer and depends on that node and the pod's requests
// alone. A share of a device goes to the device with the least room that fits.
type GPUPolicy struct {
	name   string
	of     func(n *cluster.Node, r cluster.Resources) int64
	memory memory
}

// Name implements Policy.
func (g *GPUPolicy) Name() string { return g.name }

// Score implements Policy.
func (g *GPUPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	g.memory.score(s, pod.Requests, candidates, scores, g.of)
	return nil
}

// NewGPUBestFit returns the policy that prefers the node with the least CPU and GPU left after
// placement:
//
//	⌊100 · (1 - ½·CPU left / 128 cores - ½·GPU left / 8 devices)⌋
func NewGPUBestFit() *GPUPolicy {
	return &GPUPolicy{name: "gpu-best-fit", of: func(n *cluster.Node, r cluster.Resources) int64 {
		cpu, gpu := left(n)
		return int64(maxNodeScore * (1 - (cpu-float64(r.MilliCPU))/(2*largestMilliCPU) - (gpu-float64(r.TotalGPUMilli()))/(2*largestGPUMilli)))
	}}
}

// NewGPUDotProduct returns the policy that prefers the node whose resources left before
// placement lie least along the pod's:
//
//	⌊100 · (1 - ½·(CPU left · pod's CPU / (128 cores)² + GPU left · pod's GPU / (8 devices)²))⌋
func NewGPUDotProduct() *GPUPolicy {
	return &GPUPolicy{name: "gpu-dot-product", of: func(n *cluster.Node, r cluster.Resources) int64 {
		cpu, gpu := left(n)
		along := cpu*float64(r.MilliCPU)/(largestMilliCPU*largestMilliCPU) + gpu*float64(r.TotalGPUMilli())/(largestGPUMilli*largestGPUMilli)
		return int64(maxNodeScore * (1 - along/2))
	}}
}

// left is what a node has left of CPU and of GPU, in thousandths.
func left(n *cluster.Node) (cpu, gpu float64) {
	return float64(n.Allocatable.MilliCPU - n.Requested.MilliCPU), float64(n.IdleGPUMilli())
}

// NewGPUPacking returns the policy that uses devices in use before idle devices of nodes in
// use, and these before idle nodes. A pod without GPU scores 0 everywhere. Otherwise the score
// is
//
//	on devices in use   100 - a tenth of the percentage that they have left, 50 or more
//	on k idle devices   50 - k, 33 or more, on a node of which other devices are in use
//	on an idle node     33 - the number of its devices
func NewGPUPacking() *GPUPolicy {
	return &GPUPolicy{name: "gpu-packing", of: packing}
}

func packing(n *cluster.Node, r cluster.Resources) int64 {
	on := n.ChooseDevices(r)
	if on == 0 {
		return 0
	}
	var idle int64 // devices that the pod would begin to use
	var free int64 // on the others that it would use
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

// NewGPUClustering returns the policy that keeps pods that ask for as many GPUs (or for a share
// of one) together. A pod without GPU scores 0 everywhere. Otherwise, of the pods with GPUs, a
// node hosts
//
//	75 to 100  only such pods
//	50 to 75   such pods among others
//	25 to 50   none
//	0 to 25    only others
//
// and within a band it is the higher the fuller its devices are after placement.
func NewGPUClustering() *GPUPolicy {
	return &GPUPolicy{name: "gpu-clustering", of: clustering}
}

func clustering(n *cluster.Node, r cluster.Resources) int64 {
	if r.TotalGPUMilli() == 0 {
		return 0
	}
	like, others := false, false
	for _, g := range n.Groups {
		switch {
		case g.Each.TotalGPUMilli() == 0:
		case g.Each.GPU == r.GPU:
			like = true
		default:
			others = true
		}
	}
	band := int64(0)
	switch {
	case like && !others:
		band = 75
	case like:
		band = 50
	case !others:
		band = 25
	}
	total := cluster.DeviceMilli * int64(len(n.GPUs))
	return band + int64(25*cluster.Fraction(total-n.IdleGPUMilli()+r.TotalGPUMilli(), total))
}
