package heuristic

import (
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

// aheadFamily is the policies that are greedy for an objective and think of pods that are still to come, such as
// "ahead:traffic+overload+balance=0.1".
var aheadFamily = family{prefix: aheadPrefix, parameter: "OBJECTIVE", about: "the same, near the partners of the pod's partners and in " +
	"racks with room, such as ahead:traffic+overload+balance=0.1", make: aheadFor}

const aheadPrefix = "ahead:"

func aheadFor(parameter string) (Heuristic, error) {
	h, err := greedyFor(parameter)
	if err != nil {
		return Heuristic{}, err
	}
	h.Name = aheadPrefix + strings.TrimPrefix(h.Name, greedyPrefix)
	h.About = "greedy for the objective, near the partners of the pod's partners, in racks with room for pods that are still to come"
	newGreedy := h.New
	h.New = func(s policy.Setting) policy.Policy { return &ahead{greedy: newGreedy(s), name: h.Name} }
	return h, nil
}

// Both weights were chosen among a few on family-traffic, over seeds that neither training nor the evaluation has.
const (
	// reachWeight is the part of a pod's traffic with its partners that counts as if these ran where their own partners run.
	reachWeight = 0.2
	// roomWeight is the worth of a rack whose CPU is all free, beside one without free CPU, in the objective times the number of nodes.
	roomWeight = 0.005
)

// ahead adds to greedy what a partner of the pod that is still to come would send, if it ran where its other partners run
// (cluster.Snapshot.Beyond), and the room that the rack keeps. Where traffic is not known it is greedy.
type ahead struct {
	greedy        policy.Policy
	name          string
	free, offered []int64 // CPU by rack
}

// Name implements policy.Policy.
func (a *ahead) Name() string { return a.name }

// Score implements policy.Policy.
func (a *ahead) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := a.greedy.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	t := cluster.TrafficOf(s.Nodes)
	if t == nil {
		return nil
	}
	a.look(s, t.Network)
	all := t.Rate
	for _, p := range s.Beyond {
		all += p.Rate
	}
	for i, row := range candidates {
		var far float64
		for _, p := range s.Beyond {
			far += p.Rate * t.Network.Path(row, p.Row).Distance
		}
		rack := t.Network.Rack(row)
		room := cluster.Fraction(a.free[rack]-pod.Requests.MilliCPU, a.offered[rack])
		scores[i] += float32(float64(len(s.Nodes)) * (roomWeight*room - reachWeight*far/max(all, 1)))
	}
	return nil
}

// look sums up the CPU of the racks' available nodes.
func (a *ahead) look(s *cluster.Snapshot, n *cluster.Network) {
	a.free, a.offered = make([]int64, n.Racks()), make([]int64, n.Racks())
	for i, node := range s.Nodes {
		if node.Available() {
			rack := n.Rack(int32(i))
			a.free[rack] += node.Free().MilliCPU
			a.offered[rack] += node.Allocatable.MilliCPU
		}
	}
}
