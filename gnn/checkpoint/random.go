package checkpoint

import (
	"math"
	"math/rand/v2"

	"gnnsched/gnn/graph"
)

// rare are the features that no training environment may happen to show. Their weights
// start at zero, so that a feature that training never showed does nothing in service; one
// that it does show is learned like any other.
var rare = map[string]bool{"gpu": true, "has_gpu": true, "each_gpu": true, "no_cpu": true, "no_memory": true}

// featuresOf names the inputs of the weights that read features.
func (a Architecture) featuresOf(param string) []string {
	if a.Graph == GPUGraph { // whose features say nothing of what is rare
		return nil
	}
	return map[string][]string{
		"node.weight": graph.NodeFeatures, "group.weight": graph.GroupFeatures, "pod.weight": graph.PodFeatures,
		"cluster.features.weight": graph.ClusterFeatures, "candidate.features.weight": graph.CandidateFeatures,
	}[param]
}

// Random returns an untrained checkpoint: every weight and bias uniform in ±1/√fan_in, norms
// at one and zero. It is where training starts, and what tests that need no learned weights
// use.
func Random(a Architecture, r *rand.Rand) *Checkpoint {
	c := &Checkpoint{
		Manifest: Manifest{Schema: a.Schema(), Architecture: a, Objective: "none", Config: []byte("{}")},
		Weights:  map[string]Tensor{},
	}
	fanIn := a.Hidden
	for _, p := range a.Params() {
		n := p.Shape[0]
		if len(p.Shape) == 2 {
			n *= p.Shape[1]
			fanIn = p.Shape[1] // a bias follows its weight
		}
		t := Tensor{Shape: p.Shape, Data: make([]float32, n)}
		bound := 1 / math.Sqrt(float64(fanIn))
		for i := range t.Data {
			switch p.Name {
			case "norm.weight":
				t.Data[i] = 1
			case "norm.bias":
			default:
				t.Data[i] = float32((2*r.Float64() - 1) * bound)
			}
		}
		c.Weights[p.Name] = t
		for column, feature := range a.featuresOf(p.Name) {
			for i := column; rare[feature] && i < n; i += fanIn {
				t.Data[i] = 0
			}
		}
	}
	return c
}
