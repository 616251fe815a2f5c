package sim

import (
	"math"
	"math/rand/v2"
)

// Lifetimes configures how long pods run. Lifetimes count from the end of the fill; the pods of the
// fill have run for a while by then, so that with Mean 1 the load stays about constant.
type Lifetimes struct {
	Distribution string  `json:"distribution"`    // none, exponential, pareto or lognormal; empty: exponential
	Mean         float64 `json:"mean,omitempty"`  // in units of the time in which as many pods arrive as the fill had; 0 means 1
	Alpha        float64 `json:"alpha,omitempty"` // of pareto, over 1: the smaller, the heavier the tail; 0 means 1.5
	Sigma        float64 `json:"sigma,omitempty"` // of lognormal: standard deviation of the logarithm; 0 means 1.5
}

// Names of distributions.
const (
	noEnd          = "none" // no pod leaves
	exponentialEnd = "exponential"
	paretoEnd      = "pareto"    // heavy-tailed; no variance for Alpha up to 2
	logNormalEnd   = "lognormal" // heavy-tailed, with all moments
)

func (l Lifetimes) validate(bad func(string, ...any)) {
	switch l.Distribution {
	case "", noEnd, exponentialEnd, paretoEnd, logNormalEnd:
	default:
		bad("lifetimes.distribution: %q is not %s, %s, %s or %s", l.Distribution, noEnd, exponentialEnd, paretoEnd, logNormalEnd)
	}
	if !(l.Mean >= 0) || math.IsInf(l.Mean, 0) || l.Mean != 0 && l.Distribution == noEnd {
		bad("lifetimes.mean: %v must be a finite number over 0, and left out for %s", l.Mean, noEnd)
	}
	if l.Alpha != 0 && (l.Distribution != paretoEnd || !(l.Alpha > 1) || math.IsInf(l.Alpha, 0)) {
		bad("lifetimes.alpha: %v must be over 1, and is for %s only", l.Alpha, paretoEnd)
	}
	if l.Sigma != 0 && (l.Distribution != logNormalEnd || !(l.Sigma > 0 && l.Sigma <= 10)) {
		bad("lifetimes.sigma: %v must be over 0 and at most 10, and is for %s only", l.Sigma, logNormalEnd)
	}
}

// draw draws a lifetime with l.Mean times the given mean. For a pod that runs already it draws the
// residual lifetime.
//
// In a system that has run forever, a residual lifetime is a uniform share of a lifetime drawn
// with a probability proportional to its length (Cox 1962, Renewal Theory, §5.3). Drawing so
// subtracts 1 from the α of a Pareto distribution and adds σ² to the logarithm's mean of a
// lognormal one. The exponential distribution has no memory.
func (l Lifetimes) draw(rng *rand.Rand, mean float64, runs bool) float64 {
	mean *= orElse(l.Mean, 1)
	share := 1.0
	if runs && (l.Distribution == paretoEnd || l.Distribution == logNormalEnd) {
		share = rng.Float64()
	}
	switch l.Distribution {
	case paretoEnd:
		alpha := orElse(l.Alpha, 1.5)
		least := mean * (alpha - 1) / alpha
		if runs {
			alpha--
		}
		return share * least * math.Exp(rng.ExpFloat64()/alpha)
	case logNormalEnd:
		sigma := orElse(l.Sigma, 1.5)
		mu := math.Log(mean) - sigma*sigma/2
		if runs {
			mu += sigma * sigma
		}
		return share * math.Exp(mu+sigma*rng.NormFloat64())
	}
	return rng.ExpFloat64() * mean
}

// departure is a running pod that leaves at a time.
type departure struct {
	at   float64
	pod  int32 // its arrival
	node int32
}

func (d departure) before(o departure) bool {
	return d.at < o.at || d.at == o.at && d.pod < o.pod
}

// departures is a binary heap with the next pod to leave on top. Unlike container/heap it does not
// box its values, which would allocate memory at every step.
type departures []departure

func (h *departures) push(d departure) {
	*h = append(*h, d)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *departures) pop() departure {
	q := *h
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
