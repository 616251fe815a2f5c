package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

const limit = 4 // of logs and z-scores

// moments collects mean and standard deviation (population) of a few thousand fractions.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.squares += x * x
}

func (m *moments) mean() float64 { return m.sum / max(m.n, 1) }

func (m *moments) std() float64 {
	return math.Sqrt(max(m.squares/max(m.n, 1)-m.mean()*m.mean(), 0))
}

// rise tells how much the standard deviation of n values rises when one of them grows, times
// n and a scale: what is left of order one whatever the number of values.
type rise struct{ variance, mean, std, inverse, scale float64 }

func (m *moments) rise(scale float64) rise {
	std := m.std()
	return rise{std * std, m.mean(), std, 1 / max(m.n, 1), scale * max(m.n, 1)}
}

// by is the rise for a value that is after when it has grown by d, within ±limit.
func (r rise) by(after, d float32) float32 {
	x, dd := float64(after), float64(d)
	// From n·var = Σx² - n·mean², with x = after - d before.
	variance := r.variance + dd*r.inverse*(2*x-dd-2*r.mean-dd*r.inverse)
	return clamp(float32((math.Sqrt(max(variance, 0)) - r.std) * r.scale))
}

// logRatio is log2(a/b) within ±limit; a missing amount is at the limit, two are equal.
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

// quotient is a/b, and 0 where b is 0.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func ratio(a, b int64) float32 { return float32(quotient(float64(a), float64(max(b, 0)))) }

func clamp(x float32) float32 { return max(min(x, limit), -limit) }

func abs(x float32) float32 { return max(x, -x) }

func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// lessRoom is how many pods that ask for each fit into free, less those that fit when r is
// gone from it, up to limit.
func lessRoom(each, free, r cluster.Resources) float32 {
	return min(float32(each.FitsInto(free)-each.FitsInto(free.Minus(r))), limit)
}
