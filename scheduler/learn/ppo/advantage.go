package ppo

import "math"

// sequence holds consecutive steps of one environment, an entry of each slice a step.
type sequence struct {
	rewards []float64
	values  []float64 // of the states; one entry more, for the state after the last step
	last    []bool    // whether the episode ends, or is truncated, with the step
	beyond  []float64 // of such a step: 0 if the episode ended, else the value of the state that it was left in
}

// advantages writes the advantages of a sequence to out: generalised advantage estimation (Schulman
// et al. 2016), A_t = Σ_k (γλ)^k δ_(t+k) with δ_t = r_t + γ V_(t+1) - V_t. The sum ends with the
// last step of an episode. There beyond takes the place of V_(t+1) (Pardo et al. 2018).
func (s sequence) advantages(out []float64, gamma, lambda float64) {
	next := 0.0
	for t := len(s.rewards) - 1; t >= 0; t-- {
		after := s.values[t+1]
		if s.last[t] {
			after, next = s.beyond[t], 0
		}
		next = s.rewards[t] + gamma*after - s.values[t] + gamma*lambda*next
		out[t] = next
	}
}

// normalise brings x to mean 0 and variance 1.
func normalise(x []float64) {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	by := 1 / (math.Sqrt(square) + 1e-8)
	for i := range x {
		x[i] = (x[i] - mean) * by
	}
}

// explained returns the share of the variance of y that x explains: 1 - Var(y-x)/Var(y). It is 0 if
// x is constant, and if y is.
func explained(x, y []float64) float64 {
	rest := make([]float64, len(y))
	for i := range y {
		rest[i] = y[i] - x[i]
	}
	if v := variance(y); v > 0 {
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
