package checkpoint

import (
	"math"
	"math/rand/v2"
)

// Random returns an untrained checkpoint of a valid architecture: every weight and bias uniform in
// ±1/√fan_in, norms at one and zero, and zero for the weights of rare features (feature.Feature.Rare).
// Training starts from it, and tests that need no learned weights use it.
func Random(a Architecture, r *rand.Rand) *Checkpoint {
	c := &Checkpoint{
		Manifest: Manifest{Schema: a.Schema(), Architecture: a, Objective: "none", Config: []byte("{}")},
		Weights:  map[string]Tensor{},
	}
	fanIn, inputs := a.Hidden, a.Inputs()
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
		for column, feature := range inputs[p.Reads] {
			for i := column; feature.Rare && i < n; i += fanIn {
				t.Data[i] = 0
			}
		}
	}
	return c
}
