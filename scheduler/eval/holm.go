package eval

import (
	"cmp"
	"slices"
)

// Holm returns p values that are adjusted for their number by Holm's step-down procedure (Holm 1979). If
// those below 0.05 are taken for significant, the probability that any of them is so by chance alone is at
// most 5%, however the comparisons depend on each other.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	var most float64
	for rank, i := range order {
		most = max(most, min(float64(len(p)-rank)*p[i], 1))
		adjusted[i] = most
	}
	return adjusted
}
