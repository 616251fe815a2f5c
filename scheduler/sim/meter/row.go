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
	copied   *cluster.NodeUsage // memory of a copy's node
	capacity usage.Amounts      // 0: not limited
	slots    []slot
	holds    []float64       // until when what the pods in slots want is known
	wants    []usage.Amounts // what they want, within their limits
	recalls  []usage.Recall  // of the same
	batch    int             // batch jobs among them
	history  *history

	// What follows holds until a time, unless pods came or went since: then the row is dirty.
	dirty             bool
	until             float64
	uses              dimensions // that any pod has wanted since the row began
	used              usage.Amounts
	wanted, throttled float64 // cores of services
}

// slot is the place of a pod on its node.
type slot struct {
	arrival int32
	kind    int32 // index in Meter.kinds; -1: none
	batch   bool
	seed    uint64
	since   float64 // when it started, in seconds of the meter's time
	weight  float64 // when CPU is short
	limit   float64 // cores; 0: no limit
	got     float64 // cores, of a batch job
}

// dimensions is a set of dimensions.
type dimensions uint8

const allDimensions dimensions = 1<<usage.Dimensions - 1

func (s dimensions) has(d int) bool { return s>>d&1 != 0 }

// add starts a pod. What it always wants is known at once.
func (m *Meter) add(r *row, arrival int32) {
	p := &m.pods[arrival]
	s := slot{arrival: arrival, kind: m.kindOf(p.Model), seed: p.Seed, since: p.since, limit: float64(p.Limit) / 1000}
	request := float64(p.Request.MilliCPU) / 1000
	s.weight = usage.Weight(request)
	want, hold := usage.Amounts{}, math.Inf(1)
	if p.Model == nil {
		want[usage.CPU], want[usage.Memory] = request, float64(p.Request.Memory)
	} else {
		s.batch = p.Model.Work > 0
		for d, c := range p.Model.Curves {
			if x, always := c.(usage.Constant); always {
				want[d] = float64(x)
			} else if c != nil {
				hold = math.Inf(-1)
			}
		}
	}
	want[usage.CPU] = s.limited(want[usage.CPU])
	for d, x := range want {
		if x != 0 {
			r.uses |= 1 << d
		}
	}
	if s.batch {
		r.batch++
	}
	r.slots, r.holds, r.wants, r.recalls = append(r.slots, s), append(r.holds, hold), append(r.wants, want), append(r.recalls, usage.Recall{})
	r.dirty = true
}

// limited returns what a pod wants of the CPU. What a limit takes is no demand: no node would give it.
func (s *slot) limited(cores float64) float64 {
	if s.limit > 0 && cores > s.limit {
		return s.limit
	}
	return cores
}

func (r *row) remove(arrival int32) {
	i := slices.IndexFunc(r.slots, func(s slot) bool { return s.arrival == arrival })
	last := len(r.slots) - 1
	if r.slots[i].batch {
		r.batch--
	}
	r.slots[i], r.holds[i], r.wants[i], r.recalls[i] = r.slots[last], r.holds[last], r.wants[last], r.recalls[last]
	r.slots, r.holds, r.wants, r.recalls = r.slots[:last], r.holds[:last], r.wants[:last], r.recalls[:last]
	r.dirty = true
}

// copyTo makes dst an equal row of another node, which gets a copy of the measured usage. It uses dst's memory again.
func (r *row) copyTo(dst *row, node *cluster.Node) {
	old := *dst
	*dst = *r
	dst.slots, dst.holds = append(old.slots[:0], r.slots...), append(old.holds[:0], r.holds...)
	dst.wants, dst.recalls = append(old.wants[:0], r.wants...), append(old.recalls[:0], r.recalls...)
	if dst.history = old.history; dst.history == nil {
		dst.history = &history{}
	}
	r.history.copyTo(dst.history)
	dst.node, dst.copied = node, old.copied
	if r.node.Usage == nil {
		return
	}
	if dst.copied == nil {
		dst.copied = &cluster.NodeUsage{}
	}
	recent := dst.copied.Recent
	*dst.copied = *r.node.Usage
	dst.copied.Recent = append(recent[:0], r.node.Usage.Recent...)
	node.Usage = dst.copied
}

// evaluate finds what the pods of a node want and get from a time on. Dimensions in which no pod wants anything else than
// before stay as they are.
func (m *Meter) evaluate(r *row, at float64) {
	var changed dimensions
	if r.dirty {
		changed = allDimensions
	}
	r.dirty = false
	until := math.Inf(1)
	for i, hold := range r.holds {
		if at >= hold {
			changed |= m.renew(r, i, at)
			hold = r.holds[i]
		}
		if hold < until {
			until = hold
		}
	}
	r.until = until
	if changed &= r.uses; changed == 0 {
		return
	}
	for d := range r.used {
		if changed.has(d) {
			m.sum(r, d)
		}
	}
}

// renew finds what the i-th pod of a node wants at a time and how long that holds. It returns the dimensions that changed.
func (m *Meter) renew(r *row, i int, at float64) (changed dimensions) {
	s := &r.slots[i]
	if s.kind < 0 {
		return m.renewAs(&kind{model: m.pods[s.arrival].Model, varies: allDimensions}, r, i, at)
	}
	k := &m.kinds[s.kind]
	if k.clocked && k.single >= 0 {
		x := k.want[k.single]
		if k.single == int(usage.CPU) {
			x = s.limited(x)
		}
		r.holds[i] = at + k.hold
		return r.want(i, k.single, x)
	}
	if k.single >= 0 {
		x, hold := m.wants(k, s, k.single, at, &r.recalls[i])
		r.holds[i] = at + hold
		return r.want(i, k.single, x)
	}
	return m.renewAs(k, r, i, at)
}

// renewAs is renew of a pod of a kind.
func (m *Meter) renewAs(k *kind, r *row, i int, at float64) (changed dimensions) {
	until := math.Inf(1)
	for d := range usage.Dimensions {
		if !k.varies.has(d) {
			continue
		}
		x, hold := m.wants(k, &r.slots[i], d, at, &r.recalls[i])
		until = min(until, hold)
		changed |= r.want(i, d, x)
	}
	r.holds[i] = at + until
	return changed
}

// wants returns what a pod of a kind wants in one dimension at a time, and for how many seconds.
func (m *Meter) wants(k *kind, s *slot, d int, at float64, recall *usage.Recall) (x, hold float64) {
	if k.clocked {
		x, hold = k.want[d], k.hold
	} else {
		x, hold = k.model.AtFor(usage.Dimension(d), s.seed, m.cfg.Start+at, at-s.since, recall)
	}
	if usage.Dimension(d) == usage.CPU {
		x = s.limited(x)
	}
	return x, hold
}

// want sets what the i-th pod wants in one dimension. It returns the dimension if that is another amount.
func (r *row) want(i, d int, x float64) dimensions {
	if r.wants[i][d] == x {
		return 0
	}
	r.wants[i][d] = x
	r.uses |= 1 << d
	return 1 << d
}

// sum finds what the pods of a node want and get in one dimension.
func (m *Meter) sum(r *row, d int) {
	total := 0.0
	for i := range r.wants {
		total += r.wants[i][d]
	}
	short := usage.Dimension(d) != usage.Memory && r.capacity[d] > 0 && total > r.capacity[d]
	if short {
		m.divide(r, usage.Dimension(d))
		total = 0
		for _, x := range m.got {
			total += x
		}
	}
	r.used[d] = total
	switch {
	case usage.Dimension(d) != usage.CPU:
	case !short && r.batch == 0: // everybody is a service and gets what it wants
		r.wanted, r.throttled = total, 0
	default:
		m.lose(r, short)
	}
}

// divide sets m.got to what the pods of a node get of a dimension of which they want more than there is.
func (m *Meter) divide(r *row, d usage.Dimension) {
	n := len(r.slots)
	m.got, m.want, m.weight = slices.Grow(m.got[:0], n)[:n], slices.Grow(m.want[:0], n)[:n], slices.Grow(m.weight[:0], n)[:n]
	for i := range r.slots {
		m.want[i], m.weight[i] = r.wants[i][d], 1
		if d == usage.CPU {
			m.weight[i] = r.slots[i].weight
		}
	}
	usage.Divide(r.capacity[d], m.want, m.weight, m.got)
}

// lose finds what CPU the services of a node want and do not get, and what its batch jobs get. short says that m.got has what
// each gets; else it is what each wants.
func (m *Meter) lose(r *row, short bool) {
	r.wanted, r.throttled = 0, 0
	for i := range r.slots {
		s, want := &r.slots[i], r.wants[i][usage.CPU]
		got := want
		if short {
			got = m.got[i]
		}
		if s.batch {
			s.got = got
		} else {
			r.wanted, r.throttled = r.wanted+want, r.throttled+want-got
		}
	}
}

// kind is a model of several pods.
type kind struct {
	model  *usage.Model
	varies dimensions // that are not constant
	single int        // the only one of them; -1 if there are several or none

	// A clocked model depends on the time alone: its pods want the same at a time, for so many seconds.
	clocked bool
	want    usage.Amounts
	hold    float64
}

// maxKinds bounds the time in which a pod finds its kind. Pods of other models, such as those of a trace, have none.
const maxKinds = 16

// kindOf returns the index of a model among the kinds; -1 if it is none.
func (m *Meter) kindOf(model *usage.Model) int32 {
	if model == nil {
		return -1
	}
	for i := range m.kinds {
		if m.kinds[i].model == model {
			return int32(i)
		}
	}
	if len(m.kinds) == maxKinds {
		return -1
	}
	k := kind{model: model, clocked: model.Clocked(), single: -1}
	for d, c := range model.Curves {
		if _, always := c.(usage.Constant); c != nil && !always {
			k.varies |= 1 << d
			k.single = d
		}
	}
	if k.varies&(k.varies-1) != 0 {
		k.single = -1
	}
	m.kinds = append(m.kinds, k)
	return int32(len(m.kinds) - 1)
}

// follow brings what the pods of a clocked model want up to a time, in seconds of the meter's time, which began at a time of day.
func (k *kind) follow(start, at float64) {
	if k.hold = math.Inf(1); !k.clocked {
		return
	}
	for d := range k.want {
		if k.varies.has(d) {
			x, hold := k.model.AtFor(usage.Dimension(d), 0, start+at, 0, nil)
			k.want[d], k.hold = x, min(k.hold, hold)
		}
	}
}

// hot is the fraction of a node's CPU, network or disk over which the node is hot.
const hot = 0.8

// Totals sums up what the available nodes used over time.
type Totals struct {
	Wanted    float64 // core-seconds that services wanted, within their limits
	Throttled float64 // core-seconds of them that services did not get
	CPU       float64 // core-seconds used
	Capacity  float64 // core-seconds that the nodes had
	Joules    float64 // that the nodes drew, see package power

	Seconds   float64 // time metered
	NodeTime  float64 // seconds times nodes
	HotTime   float64 // seconds times nodes that use over 80 % of their CPU, network or disk
	Imbalance float64 // seconds times the mean of the dimensions' standard deviations over the nodes
	Used      float64 // seconds times the mean of the dimensions' means over the nodes

	Finished    int     // batch jobs that have done their work
	BatchGot    float64 // core-seconds of work that batch jobs did
	BatchWanted float64 // core-seconds that they would have done in that time with all the CPU they wanted
}

// Spread sums up the fractions of nodes in use, in one tick.
type Spread struct {
	nodes float64
	of    [usage.Dimensions]cluster.Sums // of the nodes that use a dimension
}

// Node adds what a node used of its capacity in one tick.
func (t *Totals) Node(s *Spread, used, capacity *usage.Amounts, tick float64) {
	s.nodes++
	hottest := 0.0
	for d, x := range used {
		if x == 0 || capacity[d] == 0 {
			continue
		}
		x /= capacity[d]
		s.of[d].Add(x)
		if usage.Dimension(d) != usage.Memory {
			hottest = max(hottest, x)
		}
	}
	if hottest > hot {
		t.HotTime += tick
	}
}

// add adds one tick of a node.
func (t *Totals) add(r *row, tick float64, s *Spread) {
	if !r.node.Available() {
		return
	}
	t.Node(s, &r.used, &r.capacity, tick)
	t.Wanted += r.node.Usage.Wanted / 1000 * tick
	t.Throttled += r.node.Usage.Throttled / 1000 * tick
	t.CPU += r.used[usage.CPU] * tick
	t.Capacity += r.capacity[usage.CPU] * tick
	t.Joules += cluster.CPUDraw(r.node, r.used[usage.CPU]/r.capacity[usage.CPU]) * tick
}

// End adds one tick of all nodes.
func (t *Totals) End(s *Spread, tick float64) {
	t.Seconds += tick
	t.NodeTime += s.nodes * tick
	used, imbalance, dimensions := 0.0, 0.0, 0.0
	for _, m := range s.of {
		if m.Sum > 0 {
			m.N = s.nodes
			used, imbalance, dimensions = used+m.Mean(), imbalance+m.Std(), dimensions+1
		}
	}
	t.Imbalance += imbalance / max(dimensions, 1) * tick
	t.Used += used / max(dimensions, 1) * tick
}
