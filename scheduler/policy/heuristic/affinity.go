package heuristic

import (
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/policy"
)

// affinityFamily is kube-scheduler's default for pods whose manifests prefer to run near the services that they talk
// to, such as "affinity:zone".
var affinityFamily = family{prefix: affinityPrefix, parameter: "TOPOLOGY", about: "kube-scheduler, " +
	"where each pod has a preferred podAffinity to the services that it talks to, by node, rack or zone", make: affinityFor}

const affinityPrefix = "affinity:"

// topologies are the topology keys that a manifest may name.
var topologies = []string{"node", "rack", "zone"}

func affinityFor(parameter string) (Heuristic, error) {
	if !slices.Contains(topologies, parameter) {
		return Heuristic{}, choice.Unknown("topology of "+affinityPrefix+"TOPOLOGY", parameter, topologies)
	}
	return Heuristic{
		Name:  affinityPrefix + parameter,
		About: "kube-scheduler's default, where each pod has a preferred podAffinity for the services that it talks to",
		New:   func(policy.Setting) policy.Policy { return &affinity{topology: parameter} }, RandomTies: true,
	}, nil
}

// interPodAffinityWeight is the weight of the plugin InterPodAffinity in kube-scheduler's default profile of Kubernetes 1.36 and 1.37.
const interPodAffinityWeight = 2

// affinity adds to Kubernetes what upstream's InterPodAffinity scores for manifests of this kind: each service has one
// preferred term, all of the same weight, for each service that it exchanges data with, whose topologyKey is that of
// nodes, racks or zones. A node's raw score is the number of running pods in its topology domain that a term selects,
// counted twice, because their terms select the pending pod too. The scores are scaled to 0 to 100 over the candidates.
// Terms know no rates and no distances.
type affinity struct {
	Kubernetes
	topology string
	counts   map[int32]int64 // by domain
	raw      []int64         // by candidate
}

// Name implements policy.Policy.
func (a *affinity) Name() string { return affinityPrefix + a.topology }

// Score implements policy.Policy.
func (a *affinity) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := a.Kubernetes.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	t := cluster.TrafficOf(s.Nodes)
	if t == nil || len(s.Peers) == 0 {
		return nil
	}
	a.counts = map[int32]int64{}
	for _, p := range s.Peers {
		a.counts[a.domain(t.Network, p.Row)] += 2 * int64(p.Pods)
	}
	a.raw = a.raw[:0]
	for _, row := range candidates {
		a.raw = append(a.raw, a.counts[a.domain(t.Network, row)])
	}
	low, high := slices.Min(a.raw), slices.Max(a.raw)
	if low == high {
		return nil
	}
	for i, v := range a.raw {
		scores[i] += interPodAffinityWeight * float32(int64(maxNodeScore*(float64(v-low)/float64(high-low))))
	}
	return nil
}

// domain returns the number of the topology domain that a node is in.
func (a *affinity) domain(n *cluster.Network, row int32) int32 {
	switch a.topology {
	case "zone":
		return n.Zone(row)
	case "rack":
		return n.Rack(row)
	}
	return row
}

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
		far := each.Sum(s.Beyond, func(p cluster.Peer) float64 { return p.Rate * t.Network.Path(row, p.Row).Distance })
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
