package meter

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

func node(cores int64) *cluster.Node {
	return &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 1000 * cores, Memory: 8 << 30, Pods: 10}}
}

func constant(cores, work float64) Pod {
	return Pod{Model: &usage.Model{Curves: [usage.Dimensions]usage.Curve{usage.CPU: usage.Constant(cores)}, Work: work},
		Request: cluster.Resources{MilliCPU: 1000}}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Two services and a batch job want 8 of a node's 4 cores. Another node is idle, a third does not count.
func TestTick(t *testing.T) {
	away := node(4)
	away.Unschedulable = true
	nodes := []*cluster.Node{node(4), node(4), away}
	m := New(Config{Tick: 60, Pods: 4}, nodes)
	m.Place(0, 0, constant(1, 0), 0)
	m.Place(1, 0, constant(4, 0), 0)
	m.Place(2, 0, constant(3, 150), 0)
	m.Place(3, 2, constant(4, 0), 0)
	for i := range 2 {
		m.Tick(60 * float64(i))
	}
	got := m.Totals() // of 4 cores the services get 1 and 1.5, the job 1.5
	near(t, "wanted", got.Wanted, 5*120)
	near(t, "throttled", got.Throttled, 2.5*120)
	near(t, "cpu", got.CPU, 4*120)
	near(t, "capacity", got.Capacity, 8*120)
	near(t, "joules", got.Joules, (1+0.2)*4*3.3*120) // one node is full, the other idle
	near(t, "hot time", got.HotTime, 120)
	near(t, "node time", got.NodeTime, 240)
	near(t, "imbalance", got.Imbalance, 0.5*120)
	near(t, "in use", got.Used, 0.5*120)
	near(t, "batch wanted", got.BatchWanted, 3*120)
	near(t, "batch got", got.BatchGot, 1.5*120)
	if u := nodes[0].Usage; u.Measured[cluster.UsedCPU].Mean != 4000 || u.Throttled != 2500 || u.At != 60 {
		t.Errorf("measured %+v", u)
	}
	if ended := m.Ended(); len(ended) != 1 || ended[0] != 2 || len(m.Ended()) != 0 || got.Finished != 1 {
		t.Errorf("ended %v, %+v", ended, got)
	}
	m.Remove(2, 0)
	m.Place(2, 1, Pod{Request: cluster.Resources{MilliCPU: 500, Memory: 1 << 30}}, 120)
	m.Tick(120)
	near(t, "a pod without a model", m.rows[1].used[usage.CPU], 0.5)
	near(t, "throttled afterwards", m.Totals().Throttled-got.Throttled, 60)
}

// A job on a node that gives it a half takes twice as long; a limit is no loss.
func TestBatchTakesLonger(t *testing.T) {
	for _, others := range []int{0, 1} {
		m := New(Config{Tick: 10, Pods: 2}, []*cluster.Node{node(2)})
		m.Place(0, 0, constant(2, 400), 0)
		if others > 0 {
			m.Place(1, 0, constant(2, 0), 0)
		}
		ticks := 0
		for ; len(m.ended) == 0; ticks++ {
			m.Tick(10 * float64(ticks))
		}
		if want := 20 * (1 + others); ticks != want {
			t.Errorf("beside %d: %d ticks, want %d", others, ticks, want)
		}
	}
	m := New(Config{Tick: 10, Pods: 1}, []*cluster.Node{node(2)})
	limited := constant(2, 0)
	limited.Limit = 500
	m.Place(0, 0, limited, 0)
	m.Tick(0)
	if got := m.Totals(); got.Throttled != 0 || got.CPU != 5 {
		t.Errorf("%+v", got)
	}
}

func TestStatistics(t *testing.T) {
	r := row{node: node(1), history: newHistory(100)}
	measure := func(at, x float64) {
		r.used[usage.DiskRead] = x
		r.measure(at)
	}
	for i, x := range []float64{9, 1, 2, 3} { // the window has the last three
		measure(100*float64(i), x)
	}
	got := r.node.Usage.Measured[cluster.DiskRead]
	near(t, "mean", got.Mean, 2)
	near(t, "deviation", got.Deviation, math.Sqrt(2.0/3))
	near(t, "maximum of the hour", got.HourMax, 9)
	measure(4000, 0)
	measure(8000, 0)
	got = r.node.Usage.Measured[cluster.DiskRead]
	near(t, "maximum of a later hour", got.HourMax, 0)
	near(t, "maximum of the day", got.DayMax, 9)
}

// Earlier finds the mean and the extremes of models for which they are known.
func TestEarlier(t *testing.T) {
	m := &usage.Model{}
	m.Curves[usage.CPU] = usage.Day{Low: 1, High: 3, Period: day, Peak: 0}
	m.Curves[usage.Memory] = usage.Constant(1 << 30)
	u := Earlier(m, 0)
	near(t, "mean CPU", u.Measured[cluster.UsedCPU].Mean, 2000)
	near(t, "most CPU", u.Measured[cluster.UsedCPU].DayMax, 3000)
	near(t, "memory", u.Measured[cluster.UsedMemory].Mean, 1<<30)
	near(t, "deviation of memory", u.Measured[cluster.UsedMemory].Deviation, 0)
	near(t, "network", u.Measured[cluster.NetworkIn].Mean, 0)
	near(t, "most CPU with a limit", Earlier(m, 2500).Measured[cluster.UsedCPU].DayMax, 2500)
	job := &usage.Model{Work: 7200}
	job.Curves[usage.CPU] = &usage.Series{Step: jobAge, Scale: 1, Values: []float32{2, 9}}
	near(t, "CPU of a job's first hour", Earlier(job, 0).Measured[cluster.UsedCPU].Mean, 2000)
}

// anyCurve draws a curve of any kind, with amounts up to most.
func anyCurve(t *rapid.T, most float64) usage.Curve {
	amount := func(name string) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
	seconds := func(name string) float64 { return rapid.Float64Range(1, 700).Draw(t, name) }
	low := amount("low")
	high := low + amount("more")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return usage.Constant(low)
	case 1:
		return usage.Day{Low: low, High: high, Period: seconds("period"), Peak: seconds("peak")}
	case 2:
		every := seconds("every")
		return usage.Bursts{Low: low, High: high, Every: every, Length: every * rapid.Float64Range(0, 1).Draw(t, "length")}
	case 3:
		return usage.Walk{Low: low, High: high, Deviation: amount("deviation"), Step: seconds("step")}
	case 4:
		return &usage.Series{Step: seconds("step"), Scale: most, Values: rapid.SliceOfN(rapid.Float32Range(0, 2), 1, 9).Draw(t, "values"),
			Offset: seconds("offset"),
			Once:   rapid.Bool().Draw(t, "once"), Clock: rapid.Bool().Draw(t, "clock"), RandomStart: rapid.Bool().Draw(t, "random start")}
	}
	return nil
}

func anyPod(t *rapid.T) Pod {
	p := Pod{
		Seed:    rapid.Uint64().Draw(t, "seed"),
		Request: cluster.Resources{MilliCPU: rapid.Int64Range(0, 2000).Draw(t, "request"), Memory: 1 << 30},
		Limit:   rapid.SampledFrom([]int64{0, 0, 300}).Draw(t, "limit"),
	}
	if rapid.IntRange(0, 4).Draw(t, "model") > 0 {
		p.Model = &usage.Model{Work: rapid.SampledFrom([]float64{0, 0, 500}).Draw(t, "work")}
		for d := range p.Model.Curves {
			p.Model.Curves[d] = anyCurve(t, 3)
		}
	}
	return p
}

// plain evaluates a node without memory of earlier ticks.
func (m *Meter) plain(r *row, at float64) (used usage.Amounts, wanted, throttled float64) {
	demands, got := make([]usage.Demand, len(r.slots)), make([]usage.Amounts, len(r.slots))
	for i, s := range r.slots {
		demands[i] = m.pods[s.arrival].plain(m.cfg.Start+at, at)
	}
	usage.Share(r.capacity, demands, got)
	for i, s := range r.slots {
		for d := range used {
			used[d] += got[i][d]
		}
		if !s.batch {
			want, got := demands[i].Want[usage.CPU], got[i][usage.CPU]
			wanted, throttled = wanted+want, throttled+want-got
		}
	}
	return used, wanted, throttled
}

// plain returns what a pod wants without memory of earlier ticks.
func (p *pod) plain(now, at float64) usage.Demand {
	d := usage.Demand{Request: float64(p.Request.MilliCPU) / 1000, Limit: float64(p.Limit) / 1000}
	if p.Model == nil {
		d.Want[usage.CPU], d.Want[usage.Memory] = d.Request, float64(p.Request.Memory)
	} else {
		d.Want = p.Model.At(p.Seed, now, at-p.since)
	}
	if d.Limit > 0 {
		d.Want[usage.CPU] = min(d.Want[usage.CPU], d.Limit)
	}
	return d
}

// plainHistory has all that a node used, and computes everything from it at each tick.
type plainHistory struct {
	at  []float64
	all []usage.Amounts
}

func (h *plainHistory) statistics(d int, tick float64) cluster.Statistics {
	size := max(int(math.Round(cluster.UsageWindow/tick)), 1)
	window := h.all[max(len(h.all)-size, 0):]
	var sum, squares float64
	n := float64(len(window))
	for _, used := range window {
		x := used[d]
		sum, squares = sum+x, squares+x*x
	}
	k := unit(d)
	mean := sum / n
	return cluster.Statistics{Mean: k * mean, Deviation: k * math.Sqrt(max(squares/n-mean*mean, 0)), HourMax: k * h.most(d, 3600),
		DayMax: k * h.most(d, 86400)}
}

// most returns the maximum of the part of a length that goes on and of the one before.
func (h *plainHistory) most(d int, length float64) (most float64) {
	since, before, begin := 0.0, 0, 0
	for i, at := range h.at {
		if at-since >= length/2 {
			since, before, begin = at, begin, i
		}
	}
	for _, used := range h.all[before:] {
		most = max(most, used[d])
	}
	return most
}

// copied goes on with copies of the meter and of its nodes.
func (m *Meter) copied(dst *Meter) (*Meter, []*cluster.Node) {
	nodes := make([]*cluster.Node, len(m.rows))
	for i := range m.rows {
		n := *m.rows[i].node
		nodes[i] = &n
	}
	m.CopyTo(dst, nodes)
	return dst, nodes
}

// What the meter keeps from tick to tick changes nothing: use, losses and statistics are, bit by bit, those of
// evaluating everything at each tick, while pods come and go, and in copies.
func TestAgreesWithPlainEvaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pods = 8
		nodes, other := []*cluster.Node{node(2), node(8)}, &Meter{}
		tick := rapid.SampledFrom([]float64{10, 60, 61.7, 600}).Draw(t, "tick")
		m := New(Config{Tick: tick, Start: rapid.Float64Range(0, 86400).Draw(t, "start"),
			Capacity: usage.Amounts{usage.NetworkIn: 5, usage.DiskRead: 9}, Pods: pods}, nodes)
		on := make([]int32, pods)
		for p := range on {
			on[p] = -1
		}
		kinds := []Pod{anyPod(t), anyPod(t), anyPod(t), anyPod(t)} // several pods have one model
		histories := make([]plainHistory, len(nodes))
		for i := range 60 {
			at := tick * float64(i)
			switch p := rapid.IntRange(0, 2*pods).Draw(t, "pod"); {
			case p >= pods:
			case on[p] < 0:
				on[p] = rapid.Int32Range(0, 1).Draw(t, "node")
				kind := rapid.SampledFrom(kinds).Draw(t, "kind")
				kind.Seed = rapid.Uint64().Draw(t, "seed of the pod")
				m.Place(int32(p), on[p], kind, at-tick*rapid.Float64Range(0, 1).Draw(t, "before"))
			default:
				m.Remove(int32(p), on[p])
				on[p] = -1
			}
			switch {
			case i == 20:
				m.Track(nodes, on)
			case i == 30 || i == 40:
				before := m
				m, nodes = m.copied(other)
				other = before // its memory is used again
			}
			m.Tick(at)
			for n := range m.rows {
				r, h := &m.rows[n], &histories[n]
				used, wanted, throttled := m.plain(r, at)
				if r.used != used || r.wanted != wanted || r.throttled != throttled {
					t.Fatalf("node %d at %v: used %v, wanted %v, throttled %v; want %v, %v, %v", n, at, r.used, r.wanted, r.throttled, used, wanted,
						throttled)
				}
				h.at, h.all = append(h.at, at), append(h.all, used)
				for d := range used {
					if got, want := nodes[n].Usage.Measured[d], h.statistics(d, tick); got != want {
						t.Fatalf("node %d, dimension %d: %+v, want %+v", n, d, got, want)
					}
				}
			}
		}
	})
}
