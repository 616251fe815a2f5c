package plugin

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
)

// byName turns the totals into node scores without the mirror. With ties, all best nodes get 100.
func (s *scoring) byName(pod uint64, ties bool) *scores {
	out := &scores{pod: pod, row: make(map[string]int32, len(s.nodes)), byRow: make([]int8, len(s.nodes))}
	toNodeScores(s.total, out.byRow, s.name, ties)
	for i := range s.nodes {
		out.row[s.name(i)] = int32(i)
	}
	return out
}

// stateKey holds the scores of the cycle's pod, if its nodes were scored.
const stateKey = dra.CycleKey[*scores]("gnnsched/" + Name)

// scores holds the node scores of one decision, in 0 to 100. Nothing writes to it after PreScore.
type scores struct {
	pod   uint64           // its number among those whose nodes were scored
	row   map[string]int32 // by node name
	byRow []int8
}

// toNodeScores maps raw scores to integers in 0 to 100 and never reverses their order. The best node
// gets 100; the range below it is spread linearly over 0 to 99.
//
// Of tied best nodes only the one with the first name gets 100, so that the choice does not depend
// on the order of the nodes, which differs from run to run. With randomTies all of them get 100, and
// kube-scheduler draws among them. name returns the name of a node by its index.
func toNodeScores(raw []float32, out []int8, name func(int) string, randomTies bool) {
	if len(raw) == 0 {
		return
	}
	best, low := 0, raw[0]
	for i, v := range raw {
		if v > raw[best] || i > 0 && v == raw[best] && name(i) < name(best) {
			best = i
		}
		low = min(low, v)
	}
	spread := float64(raw[best]) - float64(low)
	for i, v := range raw {
		out[i] = int8(fwk.MaxNodeScore - 1)
		if spread > 0 {
			out[i] = int8((float64(v) - float64(low)) / spread * float64(fwk.MaxNodeScore-1))
		}
		if randomTies && v == raw[best] {
			out[i] = int8(fwk.MaxNodeScore)
		}
	}
	out[best] = int8(fwk.MaxNodeScore)
}

// lowest is the lowest node score of a node that the preferences leave to the decider, if they do
// not leave all.
const lowest = int8(fwk.MaxNodeScore / 2)

// toLowScores maps priorities to integers below lowest and never reverses their order.
func toLowScores(priority []int64, out []int8) {
	low, high := slices.Min(priority), slices.Max(priority)
	for i, v := range priority {
		out[i] = lowest - 1
		if low < high {
			out[i] = int8(float64(v-low) / float64(high-low) * float64(lowest-1))
		}
	}
}

// toHighScore maps a node score of toNodeScores to lowest or more. Only 100 becomes 100.
func toHighScore(v int8) int8 {
	if v == int8(fwk.MaxNodeScore) {
		return v
	}
	return lowest + int8(int64(v)*(fwk.MaxNodeScore-1-int64(lowest))/(fwk.MaxNodeScore-1))
}

// rank turns the totals into the node scores of the feasible nodes. Upstream's scores do not need the mirror, which a failed decision
// may have left in a bad state; equal best nodes of a pod of the canary's rest all get 100, as in upstream's own profile.
func (p *learnedScore) rank(s *scoring) *scores {
	if s.upstream {
		return s.byName(p.scored, s.group == canary.Rest)
	}
	out := make([]int8, len(p.mirror.snapshot.Nodes)+len(s.feasible))
	list, byRow := out[:len(s.feasible)], out[len(s.feasible):]
	s.nodeScores(list)
	for i, r := range p.rows {
		byRow[r] = list[i]
	}
	return &scores{pod: p.scored, row: p.mirror.row, byRow: byRow}
}

// nodeScores turns the totals into node scores of the feasible nodes.
func (s *scoring) nodeScores(out []int8) {
	if s.left == nil {
		toNodeScores(s.total, out, s.name, s.decider.randomTies())
		return
	}
	s.rankedScores(out)
}

// rankedScores turns the totals of the nodes that the preferences left, and the priorities of the
// others, into node scores of the feasible nodes.
func (s *scoring) rankedScores(out []int8) {
	toLowScores(s.priority, out)
	list := make([]int8, len(s.total))
	toNodeScores(s.total, list, s.name, s.decider.randomTies())
	for i, v := range list {
		out[s.left[i]] = toHighScore(v)
	}
}

// spread is the best minus the worst score.
func spread(raw []float32) float64 {
	if len(raw) == 0 {
		return 0
	}
	low, high := raw[0], raw[0]
	for _, v := range raw {
		low, high = min(low, v), max(high, v)
	}
	return float64(high) - float64(low)
}
