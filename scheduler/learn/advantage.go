package learn

import "math"

// advantages is generalised advantage estimation (Schulman et al. 2016) over a stretch of one
// environment's steps, A_t = Σ_k (γλ)^k δ_(t+k) with δ_t = r_t + γ V_(t+1) - V_t. values has one
// more entry than rewards: the value of the state after them. The sum ends with the last step of an
// episode, after which V is what beyond says: 0 where the episode ended, the value of the state
// that it was left in where it was cut (Pardo et al. 2018). It writes to out, of the length of
// rewards.
func advantages(out, rewards, values []float64, last []bool, beyond []float64, gamma, lambda float64) {
	next := 0.0
	for t := len(rewards) - 1; t >= 0; t-- {
		after := values[t+1]
		if last[t] {
			after, next = beyond[t], 0
		}
		next = rewards[t] + gamma*after - values[t] + gamma*lambda*next
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

// explained is the share of the variance of y that x explains: 1 - Var(y-x)/Var(y). It is 0 for
// a constant x, and for a constant y.
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
