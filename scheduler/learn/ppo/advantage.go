package ppo

import "math"

// normalise brings the advantages to mean 0 and variance 1.
func (r rollout) normalise() {
	n := float64(len(r))
	mean, square := 0.0, 0.0
	for i := range r {
		mean += r[i].advantage / n
	}
	for i := range r {
		square += (r[i].advantage - mean) * (r[i].advantage - mean) / n
	}
	by := 1 / (math.Sqrt(square) + 1e-8)
	for i := range r {
		r[i].advantage = (r[i].advantage - mean) * by
	}
}

// explained returns the share of the variance of the targets that the values explain: 1 - Var(target-value)/Var(target). It is 0 if
// the values are constant, and if the targets are.
func (r rollout) explained() float64 {
	targets, rest := make([]float64, len(r)), make([]float64, len(r))
	for i, s := range r {
		targets[i], rest[i] = s.target, s.target-s.value
	}
	if v := variance(targets); v > 0 {
		return 1 - variance(rest)/v
	}
	return 0
}

// variance returns the mean squared distance from the mean.
func variance(x []float64) (sum float64) {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean) / float64(len(x))
	}
	return sum
}
