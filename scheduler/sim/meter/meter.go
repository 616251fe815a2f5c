// Package meter plays what the pods of a simulated cluster use, tick by tick: what each pod wants, what its
// node has for it (usage.Share), what services lose by that, and when batch jobs have done their work. It
// writes what nodes use into cluster.Node.Usage, as a monitoring system would measure it.
//
// Everything is evaluated at the beginning of a tick and holds until its end. Pods that come or go in between
// count from the next tick on. Most curves hold for longer than a tick (usage.Model.AtFor): a pod is evaluated
// again when one of its curves changes, pods that follow the clock alike are evaluated once, and a dimension of a node is
// summed up again when one of its pods wants another amount of it. The result is the same, bit by bit, as evaluating everything
// at each tick.
package meter

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// Pod holds the fields of a pod that the meter reads.
type Pod struct {
	Model   *usage.Model // nil: it always uses what it requests
	Seed    uint64
	Request cluster.Resources
	Limit   int64 // thousandths of a core; 0: no limit
}

// Meter plays the usage of one episode. It is not safe for concurrent use.
type Meter struct {
	cfg    Config
	pods   []pod // by arrival
	kinds  []kind
	rows   []row
	ended  []int32 // batch jobs that have done their work since the last call of Ended
	totals Totals

	want, weight, got []float64 // of the pods of one node, for divide
}

// pod is a pod that has a node.
type pod struct {
	Pod
	since float64 // when it started, in seconds of the meter's time
	done  float64 // core-seconds of a batch job's work
}

// Config says how to play.
type Config struct {
	Tick     float64       // seconds, over 0
	Start    float64       // time of day at which the meter's time begins, in seconds
	Capacity usage.Amounts // network and disk of each node; 0: not limited
	Pods     int           // in the episode
}

// New returns a meter for an empty cluster. Nodes that are not available, such as a control plane, are
// metered but are not in the totals.
func New(c Config, nodes []*cluster.Node) *Meter {
	m := &Meter{cfg: c, pods: make([]pod, c.Pods)}
	m.Track(nodes, nil)
	return m
}

// podsOfNode is the number of pods of a node for which there is memory at first.
const podsOfNode = 16

// Track goes on with another list of nodes. on has the row of each pod by arrival, or -1.
func (m *Meter) Track(nodes []*cluster.Node, on []int32) {
	old := map[*cluster.Node]*history{}
	for _, r := range m.rows {
		old[r.node] = r.history
	}
	m.rows = make([]row, len(nodes))
	for i, n := range nodes {
		h := old[n]
		if h == nil {
			h = newHistory(m.cfg.Tick)
		}
		m.rows[i] = row{
			node: n, capacity: m.cfg.Capacity, history: h,
			slots: make([]slot, 0, podsOfNode), holds: make([]float64, 0, podsOfNode), wants: make([]usage.Amounts, 0, podsOfNode),
			recalls: make([]usage.Recall, 0, podsOfNode),
		}
		m.rows[i].capacity[usage.CPU] = float64(n.Allocatable.MilliCPU) / 1000
		m.rows[i].capacity[usage.Memory] = float64(n.Allocatable.Memory)
	}
	for p, r := range on {
		if r >= 0 {
			m.add(&m.rows[r], int32(p))
		}
	}
}

// Place starts a pod, by its arrival, on a node at a time in seconds. A batch job starts from nothing.
func (m *Meter) Place(arrival, node int32, p Pod, at float64) {
	m.pods[arrival] = pod{Pod: p, since: at}
	m.ended = slices.DeleteFunc(m.ended, func(a int32) bool { return a == arrival }) // it lost its node since
	m.add(&m.rows[node], arrival)
}

// Remove ends a pod that runs on a node.
func (m *Meter) Remove(arrival, node int32) {
	m.rows[node].remove(arrival)
}

// Ended returns the batch jobs that have done their work since the last call; the caller removes them. The
// slice is valid until the next tick.
func (m *Meter) Ended() []int32 {
	out := m.ended
	m.ended = m.ended[:0]
	return out
}

// Tick plays one tick from a time in seconds on, and writes to each node what it uses.
func (m *Meter) Tick(at float64) {
	for i := range m.kinds {
		m.kinds[i].follow(m.cfg.Start, at)
	}
	var s Spread
	for i := range m.rows {
		m.play(&m.rows[i], at)
		m.totals.add(&m.rows[i], m.cfg.Tick, &s)
	}
	m.totals.End(&s, m.cfg.Tick)
}

// play plays the pods of one node.
func (m *Meter) play(r *row, at float64) {
	if r.dirty || at >= r.until {
		m.evaluate(r, at)
	}
	if r.batch > 0 {
		for i := range r.slots {
			if s := &r.slots[i]; s.batch {
				m.work(s.arrival, r.wants[i][usage.CPU], s.got)
			}
		}
	}
	r.measure(at)
	r.node.Usage.Wanted, r.node.Usage.Throttled = 1000*r.wanted, 1000*r.throttled
}

// work does the work of a batch job.
func (m *Meter) work(arrival int32, want, got float64) {
	p := &m.pods[arrival]
	m.totals.BatchWanted += want * m.cfg.Tick
	m.totals.BatchGot += got * m.cfg.Tick
	before := p.done
	if p.done += got * m.cfg.Tick; before < p.Model.Work && p.done >= p.Model.Work {
		m.totals.Finished++
		m.ended = append(m.ended, arrival)
	}
}

// Totals returns what has been measured so far.
func (m *Meter) Totals() Totals { return m.totals }

// CopyTo makes dst a meter in the same state for copies of the nodes, which have the same rows. It uses dst's
// memory again.
func (m *Meter) CopyTo(dst *Meter, nodes []*cluster.Node) {
	old := *dst
	*dst = *m
	dst.pods = append(old.pods[:0], m.pods...)
	dst.kinds = append(old.kinds[:0], m.kinds...)
	dst.ended = append(old.ended[:0], m.ended...)
	dst.want, dst.weight, dst.got = old.want, old.weight, old.got
	dst.rows = slices.Grow(old.rows[:0], len(m.rows))[:len(m.rows)]
	for i := range m.rows {
		m.rows[i].copyTo(&dst.rows[i], nodes[i])
	}
}

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
	u.At = at
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
	var sum, squares float64
	n := float64(ticks)
	for range ticks {
		if place >= len(ring) {
			place = 0
		}
		x := ring[place]
		place++
		sum += x
		squares += x * x
	}
	k := unit(d)
	mean := sum / n
	s.Mean, s.Deviation = k*mean, k*math.Sqrt(max(squares/n-mean*mean, 0))
	s.HourMax, s.DayMax = k*h.hour.of(d), k*h.day.of(d)
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
