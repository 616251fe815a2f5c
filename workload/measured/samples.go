package measured

import (
	"math"

	"gnnsched/workload/usage"
)

// maxSteps is how many steps a series has at most; five years of minutes. A time that is further away is taken for a
// fault.
const maxSteps = 5 * 366 * 24 * 60

// samples gathers what one machine used.
type samples struct {
	cores  float64
	memory int64
	step   float64

	any   bool
	first float64 // begin of the first step in seconds
	steps [usage.Dimensions][]sum
}

// sum is the sum and the number of the samples in one step.
type sum struct {
	total float64
	n     int32
}

// add adds a sample. It returns false if the value or the time cannot be.
func (s *samples) add(d usage.Dimension, at, value float64) bool {
	if !(value >= 0 && value < 1e18) || !(math.Abs(at) < 1e11) {
		return false
	}
	if !s.any {
		s.any, s.first = true, math.Floor(at/s.step)*s.step
	}
	i := int(math.Floor((at - s.first) / s.step))
	if i < -maxSteps || i >= maxSteps {
		return false
	}
	if i < 0 { // records may be out of order
		for d := range s.steps {
			if s.steps[d] != nil {
				s.steps[d] = append(make([]sum, -i), s.steps[d]...)
			}
		}
		s.first, i = s.first+float64(i)*s.step, 0
	}
	for len(s.steps[d]) <= i {
		s.steps[d] = append(s.steps[d], sum{})
	}
	x := &s.steps[d][i]
	x.total, x.n = x.total+value, x.n+1
	return true
}

// machine returns the machine with its values, at most the first days (0: all). ok is false if nothing was measured.
func (s *samples) machine(name string, step, days float64) (m Machine, ok bool) {
	m = Machine{Name: name, Cores: s.cores, Memory: s.memory, Step: step, First: s.first}
	longest := 0
	for _, x := range s.steps {
		longest = max(longest, len(x))
	}
	if days > 0 {
		longest = min(longest, max(int(days*86400/step), 1))
	}
	for d, x := range s.steps {
		if len(x) > 0 {
			m.Used[d] = means(x, longest)
			ok = true
		}
	}
	return m, ok
}

// means returns the means of n steps. A step without samples has the value of the step before, and those before the
// first sample have its value.
func means(steps []sum, n int) []float32 {
	out, last, known := make([]float32, n), float32(0), false
	for i := range out {
		if i < len(steps) && steps[i].n > 0 {
			last = float32(steps[i].total / float64(steps[i].n))
			if !known {
				known = true
				for j := range out[:i] {
					out[j] = last
				}
			}
		}
		out[i] = last
	}
	return out
}
