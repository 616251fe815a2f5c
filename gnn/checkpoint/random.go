package checkpoint

import (
	"math"
	"math/rand/v2"

	"gnnsched/gnn/feature"
)

// featuresOf returns the inputs of each parameter that reads features, by the parameter's name.
func (a Architecture) featuresOf() map[string][]feature.Feature {
	if a.Graph == GPUGraph {
		l, err := a.GPULayout()
		if err != nil {
			return nil
		}
		node, cluster := feature.List(l.Node), feature.List(l.Cluster)
		return map[string][]feature.Feature{
			"node.weight": node, "device.weight": node, "cluster.weight": cluster,
			ActorPrefix + "node.weight": node, ActorPrefix + "device.weight": node, ActorPrefix + "cluster.weight": cluster,
		}
	}
	l, err := a.Layout()
	if err != nil {
		return nil
	}
	return map[string][]feature.Feature{
		"node.weight": feature.List(l.Node), "group.weight": feature.List(l.Group), "pod.weight": feature.List(l.Pod),
		"cluster.features.weight": feature.List(l.Cluster), "candidate.features.weight": feature.List(l.Candidate),
		"peer.path.weight": feature.List(l.Path),
	}
}

// Random returns an untrained checkpoint of a valid architecture: every weight and bias uniform in
// ±1/√fan_in, norms at one and zero, and zero for the weights of rare features (feature.Feature.Rare).
// Training starts from it, and tests that need no learned weights use it.
func Random(a Architecture, r *rand.Rand) *Checkpoint {
	c := &Checkpoint{
		Manifest: Manifest{Schema: a.Schema(), Architecture: a, Objective: "none", Config: []byte("{}")},
		Weights:  map[string]Tensor{},
	}
	fanIn, inputs := a.Hidden, a.featuresOf()
	for _, p := range a.Params() {
		n := p.Shape[0]
		if len(p.Shape) == 2 {
			n *= p.Shape[1]
			fanIn = p.Shape[1] // also for the bias, which follows its weight
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
		for column, feature := range inputs[p.Name] {
			for i := column; feature.Rare && i < n; i += fanIn {
				t.Data[i] = 0
			}
		}
	}
	return c
}
