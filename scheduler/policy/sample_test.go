package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Sample draws candidates with the probabilities of the softmax, and returns these probabilities.
func TestSample(t *testing.T) {
	rng, scores := rand.New(rand.NewPCG(1, 2)), []float32{500, 501, 499, 300}
	counts := make([]float64, len(scores))
	var logs [4]float32
	const draws = 40_000
	for range draws {
		i, log := Sample(rng, scores)
		counts[i] += 1. / draws
		logs[i] = log
	}
	for i, want := range []float64{0.2447, 0.6652, 0.0900, 0} {
		if math.Abs(counts[i]-want) > 0.01 || want > 0 && math.Abs(math.Exp(float64(logs[i]))-want) > 1e-4 {
			t.Errorf("%d drawn with frequency %v, said to be %v; want %v", i, counts[i], math.Exp(float64(logs[i])), want)
		}
	}
}
