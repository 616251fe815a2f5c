package policy

import (
	"math"
	"math/rand/v2"
)

// Sample draws a candidate from the softmax of the scores and returns its index and the natural
// logarithm of its probability. Actor-critic learners explore with it. There must be at least one
// score, and all scores must be finite.
func Sample(rng *rand.Rand, scores []float32) (choice int, log float32) {
	top := scores[Best(scores)]
	total := 0.0
	for _, v := range scores {
		total += math.Exp(float64(v - top))
	}
	at, choice := rng.Float64()*total, len(scores)-1
	for i, v := range scores {
		if at -= math.Exp(float64(v - top)); at < 0 {
			choice = i
			break
		}
	}
	return choice, float32(float64(scores[choice]-top) - math.Log(total))
}
