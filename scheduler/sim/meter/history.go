package meter

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// history holds what a node used lately, for the statistics that a monitoring system would have.
type history struct {
	window []usage.Amounts // ring of the ticks within cluster.UsageWindow, at least one
	next   int             // ticks so far
	hour   maxima          // of the last hour
	day    maxima          // of the last day

	// A dimension that has been at 0 from the beginning costs nothing, and one that has not changed for the whole
	// window keeps its statistics.
	seen [usage.Dimensions]bool
	same [usage.Dimensions]int // ticks since it last changed
}

// newHistory returns the history of a node that is measured every tick seconds.
func newHistory(tick float64) *history {
	return &history{
		window: make([]usage.Amounts, max(int(math.Round(cluster.UsageWindow/tick)), 1)),
		hour:   maxima{length: 3600}, day: maxima{length: 86400},
	}
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

func (m *maxima) add(at float64, used *usage.Amounts) {
	if at-m.since >= m.length/2 {
		m.before, m.part, m.since = m.part, usage.Amounts{}, at
	}
	for d, x := range used {
		m.part[d] = max(m.part[d], x)
	}
}

func (m *maxima) of(d int) float64 { return max(m.before[d], m.part[d]) }

// measure adds what the node uses from now on and brings cluster.Node.Usage up to date.
func (r *row) measure(at float64, used *usage.Amounts) {
	h := r.history
	h.push(used)
	h.hour.add(at, used)
	h.day.add(at, used)
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
	for d := range used {
		switch {
		case !h.seen[d]:
		case h.same[d] > len(h.window):
			u.Measured[d].HourMax, u.Measured[d].DayMax = unit(d)*h.hour.of(d), unit(d)*h.day.of(d)
		default:
			u.Measured[d] = h.statistics(d)
		}
	}
}

// push adds a tick to the window.
func (h *history) push(used *usage.Amounts) {
	last := used
	if h.next > 0 {
		last = h.now()
	}
	for d, x := range used {
		h.seen[d] = h.seen[d] || x != 0
		if h.same[d]++; x != last[d] {
			h.same[d] = 0
		}
	}
	h.window[h.next%len(h.window)] = *used
	h.next++
}

// unit returns what one unit of a dimension of package usage is in package cluster, which counts CPU in
// thousandths.
func unit(d int) float64 {
	if usage.Dimension(d) == usage.CPU {
		return 1000
	}
	return 1
}

// statistics summarises the ticks of the window in one dimension.
func (h *history) statistics(d int) cluster.Statistics {
	n := min(h.next, len(h.window))
	var sum, squares, slope float64
	place := (h.next - n) % len(h.window)
	for i := range n {
		x := h.window[place][d]
		if place++; place == len(h.window) {
			place = 0
		}
		sum += x
		squares += x * x
		slope += (float64(i) - float64(n-1)/2) * x
	}
	k := unit(d)
	mean := sum / float64(n)
	s := cluster.Statistics{Mean: k * mean, Deviation: k * math.Sqrt(max(squares/float64(n)-mean*mean, 0)), HourMax: k * h.hour.of(d), DayMax: k * h.day.of(d)}
	if n > 1 { // least squares: the sum of squared distances of 0 to n-1 from their mean is n(n²-1)/12
		s.Trend = k * slope * 12 / (float64(n) * float64(n*n-1)) * float64(n-1)
	}
	return s
}

// now returns what the node uses in this tick.
func (h *history) now() *usage.Amounts { return &h.window[(h.next-1)%len(h.window)] }
