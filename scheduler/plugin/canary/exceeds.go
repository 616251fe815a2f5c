package canary

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

const (
	// A rest without any pod says nothing, as in an outage that it would show too if it had pods. Beside lonely pods of the
	// canary there is no rest to wait for: it is presumed to fail in presumed of its pods.
	presumed = 0.5
	lonely   = 1000
)

// tail returns the probability that at least k of n independent events happen, each with probability p.
func tail(n, k, p float64) float64 {
	if k <= 0 || p >= 1 {
		return 1
	}
	return mathext.RegIncBeta(k, n-k+1, p)
}

// exceeds returns how likely it is by chance alone that the canary has so many hits or more, if each of its pods is one
// with the probability allowed(p), where p is the rest's. What the rest's sample says about p is its confidence
// distribution Beta(hits+1, n-hits), the one of Clopper's and Pearson's upper limits. If allowed(p) is p, the result is
// the one-sided p-value of Fisher's exact test. allowed must not fall.
func exceeds(canary, rest sample, allowed func(p float64) float64) float64 {
	chanceAt := func(p float64) float64 { return tail(canary.n, canary.hits, allowed(p)) }
	if rest.n == 0 && canary.n >= lonely {
		return chanceAt(presumed)
	}
	a, b := rest.hits+1, rest.n-rest.hits
	if b == 0 { // nothing is known, or all pods of the rest are hits
		return chanceAt(1)
	}
	const ignored, steps = 1e-12, 400
	low, high := mathext.InvRegIncBeta(a, b, ignored), mathext.InvRegIncBeta(a, b, 1-ignored)
	norm := mathext.Lbeta(a, b)
	sum, width := 0.0, (high-low)/steps
	for i := range steps + 1 { // Simpson's rule
		p := low + float64(i)*width
		weight := float64(2 + 2*(i%2))
		if i == 0 || i == steps {
			weight = 1
		}
		sum += weight * math.Exp((a-1)*math.Log(p)+(b-1)*math.Log1p(-p)-norm) * chanceAt(p)
	}
	return min(sum*width/3, 1)
}
