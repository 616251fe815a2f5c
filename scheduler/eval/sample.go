package eval

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// Observed holds what a comparison recorded of its episodes: frames and decisions of one episode of each contender, and the waits of all.
type Observed struct {
	Unit      string     `json:"unit"`           // of times
	Soon      float64    `json:"soon,omitempty"` // as in Tally
	Frames    []Frame    `json:"frames,omitempty"`
	Waits     []Waits    `json:"waits,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"` // a sample
}

// Frame is the cluster at one time. The frames of a contender and seed are in order of time.
type Frame struct {
	Contender string  `json:"contender"`
	Seed      uint64  `json:"seed,omitempty"`
	At        float64 `json:"at"`
	Waiting   int     `json:"waiting"` // pods without a node
	Nodes     []Node  `json:"nodes"`
}

// Node is a node's load. Fractions are relative to the node's allocatable amounts, and may exceed 1.
type Node struct {
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	GPU    float64 `json:"gpu,omitempty"`
	Pods   int64   `json:"pods"`
}

// Decision is the choice of a node for one pod.
type Decision struct {
	Contender string  `json:"contender"`
	Seed      uint64  `json:"seed,omitempty"`
	At        float64 `json:"at"`
	Pod       string  `json:"pod"` // namespace/name, or the name
	Class     string  `json:"class,omitempty"`
	Waited    float64 `json:"waited"`
	Feasible  int     `json:"feasible"` // nodes that the pod fitted on; 0 if that is not known
	Node      string  `json:"node"`
	Score     float64 `json:"score"` // higher is better; comparable within a decision
	// RunnerUp is the best other node; empty if there is none, or its score is not comparable.
	RunnerUp      string  `json:"runnerUp,omitempty"`
	RunnerUpScore float64 `json:"runnerUpScore,omitempty"`
	Note          string  `json:"note,omitempty"` // such as the reason of a fallback
}

// Bounds of what is kept for all contenders in all scenarios together. A contender's share is between the least and the most.
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

// nodeOf returns the load of a node.
func nodeOf(n *cluster.Node) Node {
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
			out = append(out, nodeOf(n))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, n := range nodes {
		out = append(out, nodeOf(n))
	}
	return out
}

// Round keeps four digits after the point, which halves the files.
func Round(v float64) float64 { return math.Round(v*1e4) / 1e4 }
