package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
)

var kubernetes = Heuristic{
	Name:  Kubernetes{}.Name(),
	About: "kube-scheduler's default: LeastAllocated and BalancedAllocation, and in the simulator the spreading of replicas",
	New:   fixed(Kubernetes{}), RandomTies: true,
}

var mostAllocated = Heuristic{
	Name:  "most-allocated",
	About: "kube-scheduler's packing: the fullest node by share",
	New:   fixed(fitAlone("most-allocated", stock.MostAllocated)), RandomTies: true,
}

// maxNodeScore is the highest score of kube-scheduler's plugins.
const maxNodeScore = 100

// Kubernetes is kube-scheduler's default scoring of requests (stock.Default). The simulator adds the scores
// of preferences.
type Kubernetes struct{}

var byDefault = mustStock("kube-scheduler", stock.Default())

// Name implements policy.Policy.
func (Kubernetes) Name() string { return byDefault.Name() }

// PreferenceWeights implements policy.Upstream.
func (Kubernetes) PreferenceWeights() preference.Weights { return byDefault.PreferenceWeights() }

// Score implements policy.Policy.
func (Kubernetes) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	return byDefault.Score(s, pod, candidates, scores)
}

// fitAlone is NodeResourcesFit without any other plugin. It hides that a stock.Policy is a policy.Upstream:
// preferences come first for it.
func fitAlone(name string, s stock.Strategy, shape ...stock.Point) policy.Policy {
	p := stock.Default()
	p.Strategy, p.Shape, p.Weights = s, shape, stock.Weights{Fit: 1}
	return struct{ policy.Policy }{mustStock(name, p)}
}

// mustStock returns the policy of a profile in this file.
func mustStock(name string, p stock.Profile) *stock.Policy {
	out, err := stock.New(name, p)
	if err != nil {
		panic(err) // a wrong constant
	}
	return out
}

var requestedToCapacityRatio = Heuristic{
	Name:  "requested-to-capacity-ratio",
	About: "kube-scheduler's shape function, from 0 at an empty node to 10 at a full one",
	New:   fixed(fitAlone("requested-to-capacity-ratio", stock.RequestedToCapacityRatio, binPacking...)), RandomTies: true,
}

// binPacking is the shape for packing in kube-scheduler's documentation: the fuller the better.
var binPacking = []stock.Point{{Utilization: 0, Score: 0}, {Utilization: 100, Score: stock.MaxShapeScore}}
