package runfolder

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// Bounds of the rows that a run keeps for all contenders in all scenarios together. A contender's share is between the least and the most.
const (
	nodesOfFrames  = 400_000 // nodes in all frames
	mostNodes      = 48_000  // of them in one contender's episode
	mostFrames     = 96      // of an episode
	leastFrames    = 6
	allDecisions   = 3000
	mostDecisions  = 300
	leastDecisions = 20
)

// Frames returns how many frames of a number of nodes a contender keeps, given the number of contenders.
func Frames(nodes, contenders int) int {
	return min(max(min(nodesOfFrames/max(contenders, 1), mostNodes)/max(nodes, 1), leastFrames), mostFrames)
}

// Decisions returns how many decisions a contender keeps, given the number of contenders.
func Decisions(contenders int) int {
	return min(max(allDecisions/max(contenders, 1), leastDecisions), mostDecisions)
}

// NodeOf returns the load of a node.
func NodeOf(n *cluster.Node) Node {
	return Node{
		Name: n.Name, Pods: n.Requested.Pods,
		CPU:    Round(cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU)),
		Memory: Round(cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory)),
		GPU:    Round(cluster.Fraction(n.Requested.TotalGPUMilli(), n.Allocatable.TotalGPUMilli())),
	}
}

// Workers returns the loads of the nodes outside the control plane; of all nodes if there are no others.
func Workers(nodes []*cluster.Node) []Node {
	out := []Node{}
	for _, n := range nodes {
		if !slices.ContainsFunc(n.Taints, cluster.Taint.ControlPlane) {
			out = append(out, NodeOf(n))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, n := range nodes {
		out = append(out, NodeOf(n))
	}
	return out
}

// Round keeps four digits after the point, which halves the files.
func Round(v float64) float64 { return math.Round(v*1e4) / 1e4 }
