package policy

import (
	"math"
	"math/bits"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// FGD is fragmentation gradient descent (Weng et al., USENIX ATC 2023): a placement scores
//
//	⌊100 · sigmoid((F(before) - F(after)) / 1000)⌋
//
// where F is the node's fragmentation for the typical pods of the workload, as of package
// gpu. A share of a device goes to the device with the highest score, the first of equals.
// The published figures need the first node of equals.
type FGD struct {
	typical *fragmentation.Typical
	memory  memory
}

// NewFGD returns the policy for a workload.
func NewFGD(typical *fragmentation.Typical) *FGD { return &FGD{typical: typical} }

// Name implements Policy.
func (*FGD) Name() string { return "fgd" }

// Score implements Policy.
func (f *FGD) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f.memory.score(s, pod.Requests, candidates, scores, func(n *cluster.Node, r cluster.Resources) int64 {
		score, _ := f.best(n, r)
		return score
	})
	return nil
}

// Devices implements DeviceChooser.
func (f *FGD) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	_, on := f.best(n, pod.Requests)
	return on
}

// best is the score of the node, and the devices that give it.
func (f *FGD) best(n *cluster.Node, r cluster.Resources) (score int64, on cluster.DeviceSet) {
	before := f.typical.Fragmentation(n)
	if r.GPUMilli == 0 {
		on = n.ChooseDevices(r)
		return descent(before, f.typical.After(n, r, on)), on
	}
	score = -1
	for rest := distinct(n, r.GPUMilli); rest != 0; rest &= rest - 1 {
		device := cluster.Device(bits.TrailingZeros64(uint64(rest)))
		if x := descent(before, f.typical.After(n, r, device)); x > score {
			score, on = x, device
		}
	}
	return score, on
}

// descent is the score of a change of fragmentation.
func descent(before, after float64) int64 {
	return int64(maxNodeScore / (1 + math.Exp((after-before)/cluster.DeviceMilli)))
}

// distinct are the devices with room for a share, the first of those that have the same room.
func distinct(n *cluster.Node, milli int64) (on cluster.DeviceSet) {
	for i, used := range n.GPUs {
		if used+milli > cluster.DeviceMilli {
			continue
		}
		first := true
		for j := 0; j < i && first; j++ {
			first = n.GPUs[j] != used
		}
		if first {
			on |= cluster.Device(i)
		}
	}
	return on
}
