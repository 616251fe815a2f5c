package heuristic

import (
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
)

var gpuFill = Heuristic{
	Name:  "gpu-fill",
	About: "where the fewest GPUs will stay idle once typical pods have filled the nodes; pods without GPUs on other nodes, as linear",
	New: func(s policy.Setting) policy.Policy {
		return &fill{gpu: neural.NewFill("gpu-fill", s.Typical), ordinary: linear.Tuned("linear")}
	},
	GPU: true, TypicalPods: true, NotImitable: needsGPUs,
}

// fill scores by how many more devices stay idle after a placement, once typical pods have filled the node. Pods without devices go to
// nodes without devices if any has room, and another policy chooses among these.
type fill struct {
	gpu      *neural.GPUPolicy
	ordinary *linear.Policy // for pods without devices
	rows     []int32        // of the candidates without devices
	scores   []float32      // of these
	scored   []float32      // of all candidates of the last Score
}

// idlePrice is what an idle device on the chosen node costs, in devices, times the square of the idle share of all. It keeps empty nodes
// for pods with many devices while most devices are idle.
const idlePrice = 0.025

// above is by how much a node without devices is better for an ordinary pod than any with devices.
const above = 100

// Name implements policy.Policy.
func (p *fill) Name() string { return p.gpu.Name() }

// Score implements policy.Policy.
func (p *fill) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.gpu.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	idle := p.gpu.IdleShare()
	price := float32(idlePrice * idle * idle)
	p.rows = p.rows[:0]
	for i, v := range candidates {
		if n := s.Nodes[v]; n.Allocatable.GPU > 0 || len(n.GPUs) > 0 {
			left := float32(n.IdleGPUMilli()-pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
			scores[i] -= price * left
		} else if pod.Requests.TotalGPUMilli() == 0 {
			p.rows = append(p.rows, v)
		}
	}
	if len(p.rows) > 0 {
		if err := p.scoreOrdinary(s, pod, candidates, scores); err != nil {
			return err
		}
	}
	p.scored = append(p.scored[:0], scores...)
	return nil
}

// scoreOrdinary lets another policy choose among the nodes without devices.
func (p *fill) scoreOrdinary(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.scores = slices.Grow(p.scores[:0], len(p.rows))[:len(p.rows)]
	if err := p.ordinary.Score(s, pod, p.rows, p.scores); err != nil {
		return err
	}
	at, low := 0, slices.Min(p.scores)-above
	for i, v := range candidates {
		if at < len(p.rows) && p.rows[at] == v {
			scores[i] = p.scores[at]
			at++
		} else {
			scores[i] += low
		}
	}
	return nil
}

// Reading implements policy.Reader.
func (p *fill) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	if at := slices.Index(p.rows, candidates[i]); at >= 0 {
		return p.ordinary.Reading(s, pod, p.rows, at)
	}
	r := p.gpu.Reading(s, pod, candidates, i)
	if r != nil {
		r.Features[0] = p.scored[i] + r.Features[1]
	}
	return r
}

// Devices implements policy.DeviceChooser.
func (p *fill) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return p.gpu.Devices(n, pod)
}
