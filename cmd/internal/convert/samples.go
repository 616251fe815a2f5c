package convert

import (
	"math"
	"slices"

	"gnnsched/workload/usage"
)

// maxSteps bounds the steps of a series: five years of minutes. A time that is further away is treated as a fault.
const maxSteps = 5 * 366 * 24 * 60

// samples gathers what one machine used.
type samples struct {
	id     string // of the machine in the record
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
		earlier, ok := s.prepend(-i)
		if !ok {
			return false
		}
		i += earlier
	}
	if missing := i + 1 - len(s.steps[d]); missing > 0 {
		s.steps[d] = append(s.steps[d], make([]sum, missing)...)
	}
	x := &s.steps[d][i]
	x.total, x.n = x.total+value, x.n+1
	return true
}

// prepend makes room for at least the given number of steps before the first, and returns the actual number. It doubles the room, so that a
// record in reverse order is not copied for each line. ok is false if there would be too many steps.
func (s *samples) prepend(least int) (steps int, ok bool) {
	longest := s.longest()
	if longest+least > maxSteps {
		return 0, false
	}
	steps = min(max(least, longest), maxSteps-longest)
	for d := range s.steps {
		if s.steps[d] != nil {
			s.steps[d] = append(make([]sum, steps, steps+len(s.steps[d])), s.steps[d]...)
		}
	}
	s.first -= float64(steps) * s.step
	return steps, true
}

func (s *samples) longest() (n int) {
	for _, x := range s.steps {
		n = max(n, len(x))
	}
	return n
}

// trim drops the steps before the first sample.
func (s *samples) trim() {
	empty := s.longest()
	for _, x := range s.steps {
		if i := slices.IndexFunc(x, func(x sum) bool { return x.n > 0 }); i >= 0 {
			empty = min(empty, i)
		}
	}
	for d, x := range s.steps {
		s.steps[d] = x[min(empty, len(x)):]
	}
	s.first += float64(empty) * s.step
}

// machine returns the machine with its values, at most the first days (0: all). ok is false if nothing was measured.
func (s *samples) machine(name string, step, days float64) (m measuredMachine, ok bool) {
	s.trim()
	m = measuredMachine{Name: name, Cores: s.cores, Memory: s.memory, Step: step, First: s.first}
	longest := s.longest()
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
