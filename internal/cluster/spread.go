package cluster

import "math"

// Sums are the running sums of some values. The zero value holds none.
type Sums struct{ N, Sum, Squares float64 }

// Add adds the value x.
func (s *Sums) Add(x float64) { s.N, s.Sum, s.Squares = s.N+1, s.Sum+x, s.Squares+x*x }

// Replace exchanges a value for another.
func (s *Sums) Replace(old, new float64) {
	s.Sum += new - old
	s.Squares += new*new - old*old
}

// Moved returns the sums after one of the values, x, has grown by d.
func (s Sums) Moved(x, d float64) Sums {
	return Sums{s.N, s.Sum + d, s.Squares + d*(2*x+d)}
}

// Mean returns the mean of the values; 0 if there are none.
func (s Sums) Mean() float64 { return s.Sum / max(s.N, 1) }

// Std returns the population's standard deviation; 0 if there are no values.
func (s Sums) Std() float64 {
	mean := s.Mean()
	return math.Sqrt(max(s.Squares/max(s.N, 1)-mean*mean, 0))
}
