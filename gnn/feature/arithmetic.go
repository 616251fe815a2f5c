package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

// limit bounds logarithms, z-scores and rises.
const limit = 4

// moments collects the mean and the (population) standard deviation of a few thousand fractions.
type moments struct{ cluster.Sums }

// rise computes how much the standard deviation of n values rises when one value grows, times n and a
// scale. The factor n keeps the result of order one for any number of values.
type rise struct{ variance, mean, std, inverse, scale float64 }

func (m *moments) rise(scale float64) rise {
	std := m.Std()
	return rise{std * std, m.Mean(), std, 1 / max(m.N, 1), scale * max(m.N, 1)}
}

// by returns the rise for a value that grows by d to after, within ±limit.
func (r rise) by(after, d float32) float32 {
	x, dd := float64(after), float64(d)
	// From n·var = Σx² - n·mean², with x = after - d before.
	variance := r.variance + dd*r.inverse*(2*x-dd-2*r.mean-dd*r.inverse)
	return clamp(float32((math.Sqrt(max(variance, 0)) - r.std) * r.scale))
}

// logRatio returns log2(a/b) within ±limit. If one amount is missing the result is at the limit; if
// both are, it is 0.
func logRatio(a, b float64) float64 {
	switch {
	case a <= 0 && b <= 0:
		return 0
	case a <= 0:
		return -limit
	case b <= 0:
		return limit
	}
	return max(min(math.Log2(a/b), limit), -limit)
}

// quotient returns a/b, or 0 if b is 0.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratio returns a/b, or 0 if b is 0 or less.
func ratio(a, b int64) float32 { return float32(quotient(float64(a), float64(max(b, 0)))) }

// clamp bounds x by ±limit.
func clamp(x float32) float32 { return max(min(x, limit), -limit) }

func abs(x float32) float32 { return max(x, -x) }

// flag returns 1 for true and 0 for false.
func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// lessRoom returns how many fewer pods that request each fit into free once r is taken from it, up to
// limit.
func lessRoom(each, free, r cluster.Resources) float32 {
	return min(float32(each.FitsInto(free)-each.FitsInto(free.Minus(r))), limit)
}
