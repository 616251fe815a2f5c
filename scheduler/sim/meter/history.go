package meter

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// history holds what a node used lately, for the statistics that a monitoring system would have.
//
// A dimension that has been at 0 from the beginning costs nothing. One that has not changed for the whole window keeps its
// statistics, except the maxima.
type history struct {
	size   int       // ticks within cluster.UsageWindow, at least one
	window []float64 // rings of size ticks, one for each dimension
	ticks  int       // so far
	place  int       // of the next tick in each ring
	hour   maxima    // of the last hour
	day    maxima    // of the last day

	seen dimensions            // that were ever over 0
	last usage.Amounts         // tick
	same [usage.Dimensions]int // ticks since it last changed
}

// newHistory returns the history of a node that is measured every tick seconds.
func newHistory(tick float64) *history {
	size := max(int(math.Round(cluster.UsageWindow/tick)), 1)
	return &history{size: size, window: make([]float64, size*usage.Dimensions), hour: maxima{length: 3600}, day: maxima{length: 86400}}
}

func (h *history) copyTo(dst *history) {
	window := append(dst.window[:0], h.window...)
	*dst = *h
	dst.window = window
}

// maxima keeps the maximum of a sliding time: of a part that is complete, and of the part that goes on. So it
// covers between one and two halves of the length.
type maxima struct {
	length       float64 // seconds
	since        float64 // when the part that goes on began
	before, part usage.Amounts
}

// pass begins another part if the last one is complete, and reports whether it is.
func (m *maxima) pass(at float64) bool {
	if at-m.since < m.length/2 {
		return false
	}
	m.before, m.part, m.since = m.part, usage.Amounts{}, at
	return true
}

func (m *maxima) add(d int, x float64) {
	if x > m.part[d] {
		m.part[d] = x
	}
}

func (m *maxima) of(d int) float64 { return max(m.before[d], m.part[d]) }

// measure adds what the node uses from now on and brings cluster.Node.Usage up to date.
func (r *row) measure(at float64) {
	h := r.history
	u := r.node.Usage
	if u == nil {
		u = &cluster.NodeUsage{}
		for d := range u.Known {
			u.Known[d] = true
			u.Capacity[d] = r.capacity[d] * unit(d)
		}
		r.node.Usage = u
	}
	u.Version, u.At = cluster.NextVersion(), at
	h.measure(at, &r.used, u)
}

// measure adds a tick, and writes the statistics of the dimensions that have others since.
func (h *history) measure(at float64, used *usage.Amounts, u *cluster.NodeUsage) {
	hour, day := h.hour.pass(at), h.day.pass(at)
	h.ticks++
	for d, x := range used {
		if !h.seen.has(d) {
			if x == 0 {
				continue
			}
			h.seen |= 1 << d
		}
		if x == h.last[d] {
			h.same[d]++
		} else {
			h.same[d], h.last[d] = 0, x
		}
		if h.same[d] <= h.size {
			h.window[d*h.size+h.place] = x
			h.hour.add(d, x)
			h.day.add(d, x)
			h.statistics(d, &u.Measured[d])
		} else if hour || day {
			h.hour.add(d, x)
			h.day.add(d, x)
			u.Measured[d].HourMax, u.Measured[d].DayMax = unit(d)*h.hour.of(d), unit(d)*h.day.of(d)
		}
	}
	if h.place++; h.place == h.size {
		h.place = 0
	}
}

// unit returns what one unit of a dimension of package usage is in package cluster, which counts CPU in
// thousandths.
func unit(d int) float64 {
	if usage.Dimension(d) == usage.CPU {
		return 1000
	}
	return 1
}

// statistics summarises the ticks of the window in one dimension, of which the last was just written.
func (h *history) statistics(d int, s *cluster.Statistics) {
	ring := h.window[d*h.size : (d+1)*h.size]
	ticks, place := h.size, h.place+1 // the oldest
	if h.ticks < h.size {
		ticks, place = h.ticks, 0
	}
	var sum, squares, slope float64
	n := float64(ticks)
	for i := range ticks {
		if place >= len(ring) {
			place = 0
		}
		x := ring[place]
		place++
		sum += x
		squares += x * x
		slope += (float64(i) - (n-1)/2) * x
	}
	k := unit(d)
	mean := sum / n
	s.Mean, s.Deviation = k*mean, k*math.Sqrt(max(squares/n-mean*mean, 0))
	s.HourMax, s.DayMax, s.Trend = k*h.hour.of(d), k*h.day.of(d), 0
	if ticks > 1 { // least squares: the sum of squared distances of 0 to n-1 from their mean is n(n²-1)/12
		s.Trend = k * slope * 12 / (n * float64(ticks*ticks-1)) * (n - 1)
	}
}

// The samples of Earlier: so many pods at so many times of a day.
const (
	earlierPods  = 16
	earlierTimes = 64
	day          = 86400 // seconds
)

// jobAge is the age, in seconds, up to which Earlier samples batch jobs.
const jobAge = 3600

// Earlier returns what other pods with a model used that had all they wanted: mean, deviation and maximum over pods and
// a day. limit is that of CPU in thousandths of a core; 0: no limit.
func Earlier(m *usage.Model, limit int64) *cluster.PodUsage {
	var sums [usage.Dimensions]cluster.Sums
	var most usage.Amounts
	for p := range uint64(earlierPods) {
		for i := range earlierTimes {
			now := day * (float64(i) + float64(p)/earlierPods) / earlierTimes // each pod at other times
			age := now
			if m.Work > 0 {
				age = math.Mod(now, jobAge)
			}
			for d, x := range m.At(p, now, age) {
				if usage.Dimension(d) == usage.CPU {
					if x *= 1000; limit > 0 {
						x = min(x, float64(limit))
					}
				}
				sums[d].Add(x)
				most[d] = max(most[d], x)
			}
		}
	}
	out := &cluster.PodUsage{}
	for d, s := range sums {
		out.Known[d] = true
		out.Measured[d] = cluster.Statistics{Mean: s.Mean(), Deviation: s.Std(), HourMax: most[d], DayMax: most[d]}
	}
	return out
}
