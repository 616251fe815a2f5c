package heuristic

import (
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

// greedyFamily is the policies that are greedy for an objective, such as
// "greedy:balance=0.3+zones".
var greedyFamily = family{prefix: greedyPrefix, parameter: "OBJECTIVE",
	about: "the node after which the objective is lowest, such as greedy:pack=0.5+zones", make: greedyFor}

const greedyPrefix = "greedy:"

// termSeparator separates the terms of the objective in a name, because commas separate names.
const termSeparator = "+"

func greedyFor(parameter string) (Heuristic, error) {
	m, err := objective.Parse(strings.ReplaceAll(parameter, termSeparator, ","))
	if err == nil {
		err = m.NoQueue()
	}
	if err != nil {
		return Heuristic{}, err
	}
	return Heuristic{
		Name:  (&greedy{objective: m}).Name(),
		About: "the node that leaves the objective lowest after this one pod",
		New:   func(policy.Setting) policy.Policy { return &greedy{objective: m} }, RandomTies: true,
	}, nil
}

// greedy chooses the node whose placement leaves an objective lowest. It looks one pod ahead.
type greedy struct {
	objective objective.Mix
	nodes     []*cluster.Node // point to copies, on which placements are tried
	copies    []cluster.Node
	usage     cluster.NodeUsage // of the node on which a placement is tried
	traffic   cluster.Traffic   // with the pod that is tried
}

// Name implements policy.Policy.
func (g *greedy) Name() string {
	return greedyPrefix + strings.ReplaceAll(g.objective.Name(), ",", termSeparator)
}

// Score implements policy.Policy. The score is how much the placement lowers the objective, times
// the number of nodes. The time is proportional to the number of nodes and candidates.
func (g *greedy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	g.copies, g.nodes = g.copies[:0], g.nodes[:0]
	for _, n := range s.Nodes {
		g.copies = append(g.copies, *n)
	}
	traffic := g.copyTraffic(s.Nodes)
	for i := range g.copies {
		g.copies[i].Traffic = traffic
		g.nodes = append(g.nodes, &g.copies[i])
	}
	tracker := objective.Track(g.objective, g.nodes)
	now := tracker.Cost()
	request := pod.Requests.Counted()
	request.Pods = 1
	expected := pod.ExpectedAll()
	for i, v := range candidates {
		n := g.nodes[v]
		before, measured := n.Requested, n.Usage
		n.Requested = before.Plus(request) // terms use the sum, not the groups
		if measured != nil {
			g.usage = *measured
			for d, x := range expected {
				g.usage.Missing[d] += x
			}
			n.Usage = &g.usage
		}
		flows := g.traffic.Flows
		if traffic != nil {
			traffic.Place(v, s.Peers)
		}
		tracker.Update(int(v))
		scores[i] = float32(float64(len(g.nodes)) * (now - tracker.Cost()))
		n.Requested, n.Usage = before, measured
		if traffic != nil {
			traffic.Remove(v, s.Peers)
			traffic.Flows = flows // without rounding errors
		}
		tracker.Update(int(v))
	}
	return nil
}

// copyTraffic returns a copy of the nodes' traffic; nil if that is not known.
func (g *greedy) copyTraffic(nodes []*cluster.Node) *cluster.Traffic {
	t := cluster.TrafficOf(nodes)
	if t == nil {
		return nil
	}
	t.CopyTo(&g.traffic)
	return &g.traffic
}

var greedyBalance = Heuristic{
	Name:  mostEven{}.Name(),
	About: "the node that leaves utilization most even after this one pod",
	New:   fixed(mostEven{}), RandomTies: true,
}

// mostEven chooses the node whose placement leaves objective.Balance lowest: the mean of the
// standard deviations of the available nodes' CPU and memory fractions. It looks one pod ahead. A
// network that learns balance is worth its cost only if it does better.
type mostEven struct{}

// Name implements policy.Policy.
func (mostEven) Name() string { return "greedy-balance" }

// Score implements policy.Policy. The score is how much the placement lowers the sum of the two
// deviations, times the number of nodes. Scoring differences keeps the precision of float32.
func (mostEven) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	var cpu, mem cluster.Sums
	for _, n := range s.Nodes {
		if n.Available() {
			cpu.Add(cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU))
			mem.Add(cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory))
		}
	}
	now, request := cpu.Std()+mem.Std(), pod.Requests.Counted()
	for i, v := range candidates {
		n := s.Nodes[v]
		if !n.Available() { // not part of the objective
			scores[i] = 0
			continue
		}
		used, has := n.Counted(), n.Allocatable
		c := cpu.Moved(cluster.Fraction(used.MilliCPU, has.MilliCPU), cluster.Fraction(request.MilliCPU, has.MilliCPU))
		m := mem.Moved(cluster.Fraction(used.Memory, has.Memory), cluster.Fraction(request.Memory, has.Memory))
		scores[i] = float32(float64(len(s.Nodes)) * (now - c.Std() - m.Std()))
	}
	return nil
}
