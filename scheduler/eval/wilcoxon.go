package eval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactUpTo is the largest number of nonzero differences for which p is exact instead of approximated.
const exactUpTo = 49

// Wilcoxon returns the two-sided p-value of the signed-rank test (Wilcoxon 1945) for the differences of pairs: the probability of
// differences at least as one-sided as these if both signs were equally likely. It leaves out differences of zero; if none is left, p is 1.
// Up to 49 differences p is exact, also with ties. For more it is the normal approximation with continuity correction and with the variance
// corrected for ties (Hollander & Wolfe 1973, §3.1).
func Wilcoxon(differences []float64) float64 {
	ranks, positive, ties := signedRanks(differences)
	n := len(ranks)
	if n == 0 {
		return 1
	}
	if n <= exactUpTo {
		return exactWilcoxon(ranks, positive)
	}
	mean := float64(n*(n+1)) / 4
	variance := float64(n*(n+1)*(2*n+1))/24 - ties/48
	distance := max(math.Abs(float64(positive)/2-mean)-0.5, 0)
	return min(2*distuv.UnitNormal.Survival(distance/math.Sqrt(variance)), 1)
}

// signedRanks returns twice the ranks of the nonzero differences by absolute value, in ascending order. Equal ones get the mean of their
// ranks. positive is the sum of the positive differences' ranks, and ties the sum of t³ - t over the groups of t equal ones.
func signedRanks(differences []float64) (ranks []int, positive int, ties float64) {
	d := slices.DeleteFunc(slices.Clone(differences), func(x float64) bool { return x == 0 })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	for from := 0; from < len(d); {
		to := from + 1
		for to < len(d) && math.Abs(d[to]) == math.Abs(d[from]) {
			to++
		}
		rank := from + 1 + to
		for _, x := range d[from:to] {
			if ranks = append(ranks, rank); x > 0 {
				positive += rank
			}
		}
		t := float64(to - from)
		ties += t*t*t - t
		from = to
	}
	return ranks, positive, ties
}

// exactWilcoxon returns the share of the 2ⁿ ways to give the n ranks a sign in which the sum of the positive ranks is at least
// as far from its mean as sum is. Ranks and sum are in any unit in which they are whole.
func exactWilcoxon(ranks []int, sum int) float64 {
	most := 0
	for _, r := range ranks {
		most += r
	}
	ways := make([]float64, most+1) // subsets of the ranks with each sum; exact: below 2⁴⁹
	ways[0] = 1
	for _, rank := range ranks {
		for s := most; s >= rank; s-- {
			ways[s] += ways[s-rank]
		}
	}
	var tail float64
	for s := range min(sum, most-sum) + 1 {
		tail += ways[s]
	}
	return min(2*tail/math.Exp2(float64(len(ranks))), 1)
}

// holm returns p values that are adjusted for their number by Holm's step-down procedure (Holm 1979). If values below 0.05 count as
// significant, the probability of any false one is at most 5%, for any dependence of the comparisons.
func holm(p []float64) []float64 {
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
