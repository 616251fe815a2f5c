package meter

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// row is one node.
type row struct {
	node     *cluster.Node
	capacity usage.Amounts // 0: not limited
	slots    []slot
	wants    []usage.Demand // of the pods in slots
	batch    int            // batch jobs among them
	history  *history

	// What follows holds until a time, unless pods came or went since: then the row is dirty.
	dirty             bool
	holds             float64
	used              usage.Amounts
	wanted, throttled float64 // cores of services
}

// slot is the place of a pod on its node.
type slot struct {
	arrival int32
	batch   bool
	holds   float64 // until when what it wants is known
	got     float64 // cores
}

func (r *row) add(pods []pod, arrival int32) {
	p := &pods[arrival]
	s := slot{arrival: arrival, batch: p.Model != nil && p.Model.Work > 0, holds: math.Inf(-1)}
	if s.batch {
		r.batch++
	}
	r.slots = append(r.slots, s)
	r.wants = append(r.wants, usage.Demand{})
	r.dirty = true
}

func (r *row) remove(arrival int32) {
	i := slices.IndexFunc(r.slots, func(s slot) bool { return s.arrival == arrival })
	last := len(r.slots) - 1
	if r.slots[i].batch {
		r.batch--
	}
	r.slots[i], r.wants[i] = r.slots[last], r.wants[last]
	r.slots, r.wants = r.slots[:last], r.wants[:last]
	r.dirty = true
}

// copyTo makes dst an equal row of the same node. It uses dst's memory again.
func (r *row) copyTo(dst *row) {
	old := *dst
	*dst = *r
	dst.slots, dst.wants, dst.history = append(old.slots[:0], r.slots...), append(old.wants[:0], r.wants...), old.history
	if dst.history == nil {
		dst.history = &history{}
	}
	r.history.copyTo(dst.history)
}

// evaluate finds what the pods of a node want and get from a time on.
func (m *Meter) evaluate(r *row, at float64) {
	r.dirty, r.holds = false, math.Inf(1)
	var total usage.Amounts
	for i := range r.slots {
		s := &r.slots[i]
		if at >= s.holds {
			var hold float64
			r.wants[i], hold = m.pods[s.arrival].demand(m.cfg.Start+at, at)
			s.holds = at + hold
		}
		r.holds = min(r.holds, s.holds)
		for d, x := range &r.wants[i].Want {
			total[d] += x
		}
	}
	shared := total[usage.CPU] > r.capacity[usage.CPU]
	for d, x := range total {
		if r.capacity[d] > 0 && x > r.capacity[d] && usage.Dimension(d) != usage.Memory {
			m.share(r, usage.Dimension(d), &total)
		}
	}
	r.used, r.wanted, r.throttled = total, 0, 0
	for i := range r.slots {
		s, want := &r.slots[i], r.wants[i].Want[usage.CPU]
		if s.got = want; shared {
			s.got = m.got[i][usage.CPU]
		}
		if !s.batch {
			r.wanted, r.throttled = r.wanted+want, r.throttled+want-s.got
		}
	}
}

// share divides a dimension of which the pods want more than the node has, and sets its total to what they get.
func (m *Meter) share(r *row, d usage.Dimension, total *usage.Amounts) {
	m.got = slices.Grow(m.got[:0], len(r.slots))[:len(r.slots)]
	usage.ShareOf(d, r.capacity[d], r.wants, m.got)
	total[d] = 0
	for i := range m.got {
		total[d] += m.got[i][d]
	}
}

// demand returns what the pod wants and for how many seconds. now is the time of day and at the meter's time, in
// seconds. What a limit takes from a pod is no demand: no node would give it.
func (p *pod) demand(now, at float64) (usage.Demand, float64) {
	d := usage.Demand{Request: float64(p.Request.MilliCPU) / 1000, Limit: float64(p.Limit) / 1000}
	hold := math.Inf(1)
	if p.Model == nil {
		d.Want[usage.CPU], d.Want[usage.Memory] = d.Request, float64(p.Request.Memory)
	} else {
		d.Want, hold = p.Model.AtFor(p.Seed, now, at-p.since)
	}
	if d.Limit > 0 {
		d.Want[usage.CPU] = min(d.Want[usage.CPU], d.Limit)
	}
	return d, hold
}
