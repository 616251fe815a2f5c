package heuristic

import (
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

// greedyPrefix, followed by an objective, is the name of the policy that is greedy for it.
const greedyPrefix = "greedy:"

var greedyFamily = family{prefix: greedyPrefix, parameter: "OBJECTIVE", make: greedyFor}

// termSeparator stands between the terms of that objective, where commas stand between names.
const termSeparator = "+"

// greedy chooses the node whose placement leaves an objective lowest, for any objective. It
// looks one pod ahead and knows nothing of what is still to come.
type greedy struct {
	objective objective.Mix
	nodes     []*cluster.Node // copies, to try placements on
	copies    []cluster.Node
}

// Name implements policy.Policy.
func (g *greedy) Name() string {
	return greedyPrefix + strings.ReplaceAll(g.objective.Name(), ",", termSeparator)
}

// Score implements policy.Policy. A score is how much the placement lowers the objective, times the
// nodes. It takes time by the number of nodes and of candidates.
func (g *greedy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
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
func greedyFor(parameter string) (Heuristic, error) {
	m, err := objective.Parse(strings.ReplaceAll(parameter, termSeparator, ","))
	if err != nil {
		return Heuristic{}, err
	}
	return Heuristic{
		Name: (&greedy{objective: m}).Name(), About: "the node that leaves the objective lowest after this one pod", RandomTies: true,
		New: func(policy.Setting) policy.Policy { return &greedy{objective: m} },
	}, nil
}
