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
