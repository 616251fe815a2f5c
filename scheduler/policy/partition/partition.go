// Package partition holds the policies that choose the place of a MIG partition: the node, the GPU, and where on the GPU it starts.
//
// What still fits on a GPU depends on its used memory slices only (package mig), so a GPU is in one of 256 states. A policy has a
// loss for each placement on each state, and takes the placement of least loss in the cluster. For all rules but the fits, the loss is what
// the placement adds to a potential of the state.
package partition

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
)

// states is the number of states of a GPU.
const states = int(mig.All) + 1

// Mix is the share of each profile in a workload's requests for partitions. The shares add up to 1.
type Mix [mig.Count]float64

// MixOf returns the mix of a workload.
func MixOf(t *fragmentation.Typical) Mix { return t.Partitions() }

// loss is the cost of a placement that takes a GPU from one state to another.
type loss func(before, after mig.Slices) float64

// growth is the loss of a placement that adds to a potential.
func growth(potential func(mig.Slices) float64) loss {
	var of [states]float64
	for s := range states {
		of[s] = potential(mig.Slices(s))
	}
	return func(before, after mig.Slices) float64 { return of[after] - of[before] }
}

// Policy takes the placement of least loss; of equal ones the first node, the first GPU and the first start. A pod
// that requests no single partition is left to another policy. It implements policy.DeviceChooser and policy.StartChooser.
type Policy struct {
	name   string
	others policy.Policy
	best   [mig.Count][states]option
}

// option is the best placement of a partition on a GPU.
type option struct {
	start int8 // -1 if there is none
	loss  float32
}

var (
	_ policy.DeviceChooser = &Policy{}
	_ policy.StartChooser  = &Policy{}
)

func newPolicy(name string, l loss, others policy.Policy) *Policy {
	out := &Policy{name: name, others: others}
	for _, p := range mig.Profiles() {
		for s := range states {
			used, best := mig.Slices(s), option{start: -1, loss: math.MaxFloat32}
			for start := range p.Free(used) {
				if x := float32(l(used, used|p.On(start))); best.start < 0 || x < best.loss {
					best = option{int8(start), x}
				}
			}
			out.best[p][s] = best
		}
	}
	return out
}

// Name implements policy.Policy.
func (p *Policy) Name() string { return p.name }

// Score implements policy.Policy. The score is the loss of the best placement on the node, negated.
func (p *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if pod.Partition == mig.None {
		return p.others.Score(s, pod, candidates, scores)
	}
	for i, row := range candidates {
		_, best := p.on(s.Nodes[row], pod.Partition)
		scores[i] = -best.loss
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (p *Policy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if pod.Partition == mig.None {
		return policy.Devices(p.others, n, pod)
	}
	if i, _ := p.on(n, pod.Partition); i >= 0 {
		return cluster.Device(i)
	}
	return n.ChooseDevices(pod.Requests)
}

// Start implements policy.StartChooser.
func (p *Policy) Start(used mig.Slices, profile mig.Profile) int {
	return int(p.best[profile][used].start)
}

// on returns the device with the best placement on a node, and the placement; -1 if there is none. Devices that are shown as full have
// none.
func (p *Policy) on(n *cluster.Node, profile mig.Profile) (device int, best option) {
	device, best = -1, option{start: -1, loss: math.MaxFloat32}
	for i, used := range n.Slices {
		if i >= len(n.GPUs) || n.GPUs[i] >= cluster.DeviceMilli {
			continue
		}
		if o := p.best[profile][used]; o.start >= 0 && (device < 0 || o.loss < best.loss) {
			device, best = i, o
		}
	}
	return device, best
}
