package sim

import (
	"math"
	"math/rand/v2"
)

// Lifetimes is for how long pods run. Time counts from when the load is reached; the pods
// that are there by then have run for a while already, so that with Mean 1 the load stays
// about where it is.
type Lifetimes struct {
	Distribution Lifetime `json:"distribution"`    // exponential where empty
	Mean         float64  `json:"mean,omitempty"`  // measured by the time in which as many pods arrive as the fill had; 0 stands for 1
	Alpha        float64  `json:"alpha,omitempty"` // of pareto, over 1: the smaller, the heavier the tail; 0 stands for 1.5
	Sigma        float64  `json:"sigma,omitempty"` // of lognormal: standard deviation of the logarithm; 0 stands for 1.5
}

// Lifetime is a distribution of lifetimes.
type Lifetime string

// The distributions.
const (
	NoEnd          Lifetime = "none" // nobody leaves
	ExponentialEnd Lifetime = "exponential"
	ParetoEnd      Lifetime = "pareto"    // heavy-tailed; no variance for Alpha up to 2
	LogNormalEnd   Lifetime = "lognormal" // heavy-tailed, with all moments
)

func (l Lifetimes) validate(bad func(string, ...any)) {
	switch l.Distribution {
	case "", NoEnd, ExponentialEnd, ParetoEnd, LogNormalEnd:
	default:
		bad("lifetimes.distribution: %q is not %s, %s, %s or %s", l.Distribution, NoEnd, ExponentialEnd, ParetoEnd, LogNormalEnd)
	}
	if !(l.Mean >= 0) || math.IsInf(l.Mean, 0) || l.Mean != 0 && l.Distribution == NoEnd {
		bad("lifetimes.mean: %v must be a finite number over 0, and left out for %s", l.Mean, NoEnd)
	}
	if l.Alpha != 0 && (l.Distribution != ParetoEnd || !(l.Alpha > 1) || math.IsInf(l.Alpha, 0)) {
		bad("lifetimes.alpha: %v must be over 1, and is for %s only", l.Alpha, ParetoEnd)
	}
	if l.Sigma != 0 && (l.Distribution != LogNormalEnd || !(l.Sigma > 0 && l.Sigma <= 10)) {
		bad("lifetimes.sigma: %v must be over 0 and at most 10, and is for %s only", l.Sigma, LogNormalEnd)
	}
}

// draw draws a lifetime around a mean; for a pod that runs already, what is left of it.
//
// What is left of a lifetime in a system that has been going on forever is an even share of a
// lifetime drawn with a probability proportional to its length (Cox 1962, Renewal Theory,
// §5.3). For a Pareto distribution those have one less in α, for a lognormal one σ² more in
// the logarithm's mean; an exponential one has no memory.
func (l Lifetimes) draw(rng *rand.Rand, mean float64, runs bool) float64 {
	mean *= orElse(l.Mean, 1)
	share := 1.0
	if runs && (l.Distribution == ParetoEnd || l.Distribution == LogNormalEnd) {
		share = rng.Float64()
	}
	switch l.Distribution {
	case ParetoEnd:
		alpha := orElse(l.Alpha, 1.5)
		least := mean * (alpha - 1) / alpha
		if runs {
			alpha--
		}
		return share * least * math.Exp(rng.ExpFloat64()/alpha)
	case LogNormalEnd:
		sigma := orElse(l.Sigma, 1.5)
		mu := math.Log(mean) - sigma*sigma/2
		if runs {
			mu += sigma * sigma
		}
		return share * math.Exp(mu+sigma*rng.NormFloat64())
	}
	return rng.ExpFloat64() * mean
}
