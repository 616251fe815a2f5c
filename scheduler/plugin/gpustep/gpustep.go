// Package gpustep makes the states of steps from which networks for GPU clusters learn online: the
// vertices that such a network saw, what is idle on each node, and what waiting pods request.
package gpustep

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
)

// vertices is the number of nodes whose vertices a state has, if there are so many.
const vertices = 32

// placements is the number of candidates that a state for an actor has, if there are so many.
const placements = 16

// Decision is one that a network on the GPU graph has made.
type Decision struct {
	Policy   *neural.GPUPolicy // has scored the candidates
	Snapshot *cluster.Snapshot
	Pod      *cluster.Pod
	Rows     []int32   // of the candidates, in the snapshot's nodes
	Scores   []float32 // of the candidates
	Actor    bool      // whether the network's actor learns from candidates
}

// State returns the state of a decision, with vertices that rng draws. waiting is the thousandths of devices that
// waiting pods request.
func (d Decision) State(rng *rand.Rand, waiting int64) *experience.GPUState {
	nodes, stars := d.Snapshot.Nodes, d.Policy.Stars()
	s := &experience.GPUState{Cluster: slices.Clone(stars.Features(nodes)), Waiting: float64(waiting) / cluster.DeviceMilli}
	kinds := map[experience.MachineKind]int32{}
	var open []*cluster.Node
	for _, n := range nodes {
		if len(n.GPUs) == 0 || !stars.Open(n) {
			continue
		}
		open = append(open, n)
		kind := experience.MachineKind{MilliCPU: n.Allocatable.MilliCPU, Memory: n.Allocatable.Memory, Devices: int64(len(n.GPUs)),
			Model: modelOf(n)}
		number, known := kinds[kind]
		if !known {
			number = int32(len(s.Kinds))
			kinds[kind] = number
			s.Kinds = append(s.Kinds, kind)
		}
		s.Nodes = append(s.Nodes, experience.GPUAmounts{ID: idOf(n.Name), Kind: number, Idle: float32(n.IdleGPUMilli()) / cluster.DeviceMilli})
	}
	for range min(vertices, len(open)) {
		row := rng.IntN(len(open))
		s.Rows = append(s.Rows, int32(row))
		s.Vertices = append(s.Vertices, stars.Vertex(open[row], cluster.Resources{}, 0))
	}
	if d.Actor {
		d.candidates(rng, s)
	}
	return s
}

// candidates adds the best candidate and others drawn at random, each before and after the placement on the
// devices that the network would choose there.
func (d Decision) candidates(rng *rand.Rand, s *experience.GPUState) {
	at := policy.Best(d.Scores)
	for range min(placements, len(d.Rows)) {
		n := d.Snapshot.Nodes[d.Rows[at]]
		s.Before = append(s.Before, d.Policy.Stars().Vertex(n, cluster.Resources{}, 0))
		s.After = append(s.After, d.Policy.Stars().Vertex(n, d.Pod.Requests, policy.Devices(d.Policy, n, d.Pod)))
		at = rng.IntN(len(d.Rows))
	}
}

// maxModel is the longest name of a GPU model, which a label of the node gives, in bytes.
const maxModel = 253

func modelOf(n *cluster.Node) string {
	return n.GPUModel[:min(len(n.GPUModel), maxModel)]
}

// idOf returns the hash of a node's name.
func idOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}
