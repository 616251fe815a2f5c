package policy

import (
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// greedyPrefix, followed by an objective, is the name of the policy that is greedy for it.
const greedyPrefix = "greedy:"

// termSeparator stands between the terms of that objective, where commas stand between names.
const termSeparator = "+"

// Greedy chooses the node whose placement leaves an objective lowest, for any objective. It
// looks one pod ahead and knows nothing of what is still to come.
type Greedy struct {
	objective objective.Mix
	nodes     []*cluster.Node // copies, to try placements on
	copies    []cluster.Node
}

// NewGreedy returns the policy for an objective.
func NewGreedy(m objective.Mix) *Greedy { return &Greedy{objective: m} }

// Name implements Policy.
func (g *Greedy) Name() string {
	return greedyPrefix + strings.ReplaceAll(g.objective.Name(), ",", termSeparator)
}

// Score implements Policy. A score is how much the placement lowers the objective, times the
// nodes. It takes time by the number of nodes and of candidates.
func (g *Greedy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	g.copies, g.nodes = g.copies[:0], g.nodes[:0]
	for _, n := range s.Nodes {
		g.copies = append(g.copies, *n)
	}
	for i := range g.copies {
		g.nodes = append(g.nodes, &g.copies[i])
	}
	tracker := objective.Track(g.objective, g.nodes)
	now := tracker.Cost()
	request := pod.Requests
	request.Pods = 1
	for i, v := range candidates {
		n := g.nodes[v]
		before := n.Requested
		n.Requested = before.Plus(request) // terms look at the sum, not at the groups
		tracker.Update(int(v))
		scores[i] = float32(float64(len(g.nodes)) * (now - tracker.Cost()))
		n.Requested = before
		tracker.Update(int(v))
	}
	return nil
}

// greedyFor is the heuristic of a name such as "greedy:balance=0.3+zones".
func greedyFor(name string) (Heuristic, error) {
	m, err := objective.Parse(strings.ReplaceAll(strings.TrimPrefix(name, greedyPrefix), termSeparator, ","))
	if err != nil {
		return Heuristic{}, err
	}
	return Heuristic{
		Name: NewGreedy(m).Name(), About: "the node that leaves the objective lowest after this one pod", RandomTies: true,
		New: func(Setting) Policy { return NewGreedy(m) },
	}, nil
}
