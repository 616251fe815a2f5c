package meter

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

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
		return &usage.Series{Step: seconds("step"), Scale: most, Values: rapid.SliceOfN(rapid.Float32Range(0, 2), 1, 9).Draw(t, "values"), Offset: seconds("offset"),
			Once: rapid.Bool().Draw(t, "once"), Clock: rapid.Bool().Draw(t, "clock"), RandomStart: rapid.Bool().Draw(t, "random start")}
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
		demands[i], _ = m.pods[s.arrival].demand(m.cfg.Start+at, at)
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

// What the meter keeps from tick to tick changes nothing: use, losses and statistics are, bit by bit, those of
// evaluating everything at each tick, while pods come and go.
func TestAgreesWithPlainEvaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pods = 8
		nodes := []*cluster.Node{node(2), node(8)}
		tick := rapid.SampledFrom([]float64{10, 60, 61.7, 600}).Draw(t, "tick")
		m := New(Config{Tick: tick, Start: rapid.Float64Range(0, 86400).Draw(t, "start"), Capacity: usage.Amounts{usage.NetworkIn: 5, usage.DiskRead: 9}, Pods: pods}, nodes)
		on := make([]int32, pods)
		for p := range on {
			on[p] = -1
		}
		window := make([][]usage.Amounts, len(nodes))
		for i := range 40 {
			at := tick * float64(i)
			switch p := rapid.IntRange(0, 3*pods).Draw(t, "pod"); {
			case p >= pods:
			case on[p] < 0:
				on[p] = rapid.Int32Range(0, 1).Draw(t, "node")
				m.Place(int32(p), on[p], anyPod(t), at-tick*rapid.Float64Range(0, 1).Draw(t, "before"))
			default:
				m.Remove(int32(p), on[p])
				on[p] = -1
			}
			if i == 20 {
				m.Track(nodes, on)
			}
			m.Tick(at)
			for n := range m.rows {
				r := &m.rows[n]
				used, wanted, throttled := m.plain(r, at)
				if r.used != used || r.wanted != wanted || r.throttled != throttled {
					t.Fatalf("node %d at %v: used %v, wanted %v, throttled %v; want %v, %v, %v", n, at, r.used, r.wanted, r.throttled, used, wanted, throttled)
				}
				window[n] = append(window[n], used)
				h := &history{window: slices.Clone(r.history.window), next: r.history.next, hour: r.history.hour, day: r.history.day}
				for back := range min(len(h.window), i+1) {
					if got, want := h.window[(h.next-1-back)%len(h.window)], window[n][i-back]; got != want {
						t.Fatalf("node %d: %d ticks ago %v, want %v", n, back, got, want)
					}
				}
				for d := range used {
					if got, want := r.node.Usage.Measured[d], h.statistics(d); got != want {
						t.Fatalf("node %d, dimension %d: %+v, want %+v", n, d, got, want)
					}
				}
			}
		}
	})
}
