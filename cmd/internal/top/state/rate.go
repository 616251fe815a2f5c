package state

import "time"

// rateWindow is the time over which the pods bound per second are averaged.
const rateWindow = 10 * time.Second

const (
	rateStep  = 500 * time.Millisecond
	rateSteps = int64(rateWindow / rateStep)
)

// rate counts events in a ring of short time steps. The count over a sliding window then takes
// constant memory, however many events there are.
type rate struct {
	count [rateSteps]uint32
	step  [rateSteps]int64 // the time step that a slot holds, in units of rateStep
}

// add counts one event at t. It ignores an event whose slot already holds a newer step.
func (r *rate) add(t time.Time) {
	s := t.UnixNano() / int64(rateStep)
	i := s % rateSteps
	switch {
	case r.step[i] == s:
		r.count[i]++
	case r.step[i] < s:
		r.step[i], r.count[i] = s, 1
	}
}

// perSecond returns the mean rate over the window that ends at now.
func (r *rate) perSecond(now time.Time) float64 {
	n := now.UnixNano()
	cur := n / int64(rateStep)
	var sum uint64
	for i, s := range r.step {
		if s > cur-rateSteps && s <= cur {
			sum += uint64(r.count[i])
		}
	}
	// The newest step is not over yet: divide by the time that the slots really cover.
	covered := time.Duration((rateSteps-1)*int64(rateStep) + n - cur*int64(rateStep))
	return float64(sum) / covered.Seconds()
}
