// Package spread computes the standard deviation of values from running sums, and answers in
// constant time what it would be after one of the values changed.
package spread

import "math"

// Sums are the running sums of some values. The zero value holds none.
type Sums struct{ n, sum, squares float64 }

// Add adds the value x.
func (s *Sums) Add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+x*x }

// Moved returns the sums after one of the values, x, has grown by d.
func (s Sums) Moved(x, d float64) Sums {
	return Sums{s.n, s.sum + d, s.squares + d*(2*x+d)}
}

// Mean returns the mean of the values; 0 if there are none.
func (s Sums) Mean() float64 { return s.sum / max(s.n, 1) }

// Std returns the population's standard deviation; 0 if there are no values.
func (s Sums) Std() float64 {
	mean := s.Mean()
	return math.Sqrt(max(s.squares/max(s.n, 1)-mean*mean, 0))
}
