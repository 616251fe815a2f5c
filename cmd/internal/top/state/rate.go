package state

import "time"

// rateWindow is how far back the pods bound per second look.
const rateWindow = 10 * time.Second

const (
	rateStep  = 500 * time.Millisecond
	rateSteps = int64(rateWindow / rateStep)
)

// rate counts events in a ring of short steps, so that the count over a sliding window
// costs a fixed amount of memory however many events there are.
type rate struct {
	count [rateSteps]uint32
	step  [rateSteps]int64 // which step of time a slot holds now
}

// add counts one event at t. An event from before the window of what is already there
// must not wipe out a newer slot.
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

// perSecond is the mean rate over the window that ends at now.
func (r *rate) perSecond(now time.Time) float64 {
	n := now.UnixNano()
	cur := n / int64(rateStep)
	var sum uint64
	for i, s := range r.step {
		if s > cur-rateSteps && s <= cur {
			sum += uint64(r.count[i])
		}
	}
	// The newest step is only partly over: divide by the time that the slots really cover.
	covered := time.Duration((rateSteps-1)*int64(rateStep) + n - cur*int64(rateStep))
	return float64(sum) / covered.Seconds()
}
