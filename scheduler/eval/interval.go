package eval

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is the probability with which an interval is meant to contain the true mean.
const confidence = 0.95

// meanInterval returns the mean of independent values with its 95% interval: Student's t, corrected for the skewness of the values by
// Hall's transformation (Hall 1992, "On the removal of skewness by transformation", J. R. Statist. Soc. B 54, 221-228). For paired samples,
// values are the differences of the pairs.
//
// With ten values, the evaluation's default, the interval contains the mean in 93 to 97% of the cases for normal, uniform, exponential and
// moderately skewed lognormal values; TestMeanIntervalCovers measures it. For symmetric values it is Student's t interval.
func meanInterval(values []float64) Interval {
	mean := stat.Mean(values, nil)
	sd := stat.PopStdDev(values, nil)
	if n := len(values); n < 2 || !(sd > grain*math.Abs(mean)) {
		return Interval{mean, mean, mean}
	}
	n := float64(len(values))
	skewness := stat.MomentAbout(3, values, mean, nil) / (sd * sd * sd)
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1 + confidence) / 2)
	unit := sd / math.Sqrt(n-1) // the standard error of the mean
	return Interval{
		Mean: mean,
		Low:  mean - unit*unskewed(t, skewness, n),
		High: mean - unit*unskewed(-t, skewness, n),
	}
}

// unskewed returns the quantile of Student's statistic of n values with a skewness g, from the quantile t
// of Student's distribution. It is the inverse of Hall's cubic transformation
//
//	t = x + g·x²/(3√n) + g²·x³/(27n) + g/(6√n)
//
// which removes the statistic's skewness.
func unskewed(t, g, n float64) float64 {
	root := math.Sqrt(n)
	if math.Abs(g) < 1e-6 { // the limit; the formula below would lose its digits
		return t
	}
	return 3 * root / g * (math.Cbrt(1+g*(t/root-g/(6*n))) - 1)
}
