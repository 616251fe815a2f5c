package feature

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// Room is the free share of what the available nodes of a rack offer.
type Room struct{ CPU, Memory float32 }

// racks holds the room of all racks.
type racks struct {
	known     bool
	room      []Room    // by rack
	pods      []float32 // by rack: the feature rack_pods
	free      []cluster.Resources
	offered   []cluster.Resources
	mean, std Room // over the racks
}

// room returns the room of the racks; nothing where traffic is not known. It is computed once for each decision.
func (c *Candidates) room() *racks {
	r := &c.racks
	if r.known {
		return r
	}
	t := cluster.TrafficOf(c.Nodes)
	if t == nil {
		*r = racks{known: true}
		return r
	}
	count := t.Network.Racks()
	*r = racks{known: true, room: r.room[:0], pods: r.pods[:0], free: zeroed(r.free, count), offered: zeroed(r.offered, count)}
	for i, n := range c.Nodes {
		if n.Available() {
			rack := t.Network.Rack(int32(i))
			r.free[rack], r.offered[rack] = r.free[rack].Plus(n.Free()), r.offered[rack].Plus(n.Allocatable)
		}
	}
	var cpu, memory moments
	for i := range count {
		x := Room{ratio(r.free[i].MilliCPU, r.offered[i].MilliCPU), ratio(r.free[i].Memory, r.offered[i].Memory)}
		r.room, r.pods = append(r.room, x), append(r.pods, c.holds(r.free[i]))
		cpu.Add(float64(x.CPU))
		memory.Add(float64(x.Memory))
	}
	r.mean, r.std = Room{float32(cpu.Mean()), float32(memory.Mean())}, Room{float32(cpu.Std()), float32(memory.Std())}
	return r
}

// RackRoom returns the room of a node's rack, relative to the mean of the racks; nothing where traffic is not known.
func (c *Candidates) RackRoom(row int32) Room {
	r := c.room()
	if len(r.room) == 0 {
		return Room{}
	}
	x := r.room[cluster.TrafficOf(c.Nodes).Network.Rack(row)]
	return Room{x.CPU - r.mean.CPU, x.Memory - r.mean.Memory}
}

// zeroed returns zero values, in the memory of old ones.
func zeroed(old []cluster.Resources, count int) []cluster.Resources {
	old = slices.Grow(old[:0], count)[:count]
	clear(old)
	return old
}

// rackFeatures describe the rack of a candidate before the pod is placed there. The pods that will come to talk to the pod need
// room near it.
var rackFeatures = [...]Feature{
	{Name: "rack_cpu", Doc: "free / allocatable CPU of the candidate's rack - mean over the racks", In: Difference},
	{Name: "rack_memory", Doc: "the same of memory", In: Difference},
	{Name: "rack_pods", Doc: "log2(1 + how many such pods the free CPU and memory of the rack would hold) / 4, at most 4", In: Amount},
}

// fillRacks writes the features of every candidate.
func fillRacks(c *Candidates, out Rows) {
	r := c.room()
	if len(r.room) == 0 {
		for i := range c.Rows {
			clear(out.Row(i))
		}
		return
	}
	n := cluster.TrafficOf(c.Nodes).Network
	for i, v := range c.Rows {
		x := c.RackRoom(v)
		copy(out.Row(i), []float32{x.CPU, x.Memory, r.pods[n.Rack(v)]})
	}
}

// holds returns log2(1 + how many pods like the pending one free resources would hold) / 4, at most limit.
func (c *Candidates) holds(free cluster.Resources) float32 {
	pods, each := math.Inf(1), c.Pod.Requests
	if each.MilliCPU > 0 {
		pods = float64(free.MilliCPU) / float64(each.MilliCPU)
	}
	if each.Memory > 0 {
		pods = min(pods, float64(free.Memory)/float64(each.Memory))
	}
	return within(math.Log2(1+max(pods, 0))/4, 0)
}

// limit bounds logarithms, z-scores and rises.
const limit = 4

// moments collects the mean and the (population) standard deviation of a few thousand fractions.
type moments struct{ cluster.Sums }

// rise computes how much the standard deviation of n values rises when one value grows, times n and a
// scale. The factor n keeps the result of order one for any number of values.
type rise struct{ variance, mean, std, inverse, scale float64 }

func (m *moments) rise(scale float64) rise {
	std := m.Std()
	return rise{std * std, m.Mean(), std, 1 / max(m.N, 1), scale * max(m.N, 1)}
}

// by returns the rise for a value that grows by d to after, within ±limit.
func (r rise) by(after, d float32) float32 {
	x, dd := float64(after), float64(d)
	// From n·var = Σx² - n·mean², with x = after - d before.
	variance := r.variance + dd*r.inverse*(2*x-dd-2*r.mean-dd*r.inverse)
	return clamp(float32((math.Sqrt(max(variance, 0)) - r.std) * r.scale))
}

// logRatio returns log2(a/b) within ±limit. If one amount is missing the result is at the limit; if
// both are, it is 0.
func logRatio(a, b float64) float64 {
	switch {
	case a <= 0 && b <= 0:
		return 0
	case a <= 0:
		return -limit
	case b <= 0:
		return limit
	}
	return max(min(math.Log2(a/b), limit), -limit)
}

// quotient returns a/b, or 0 if b is 0.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratio returns a/b, or 0 if b is 0 or less.
func ratio(a, b int64) float32 { return float32(quotient(float64(a), float64(max(b, 0)))) }

// clamp bounds x by ±limit.
func clamp(x float32) float32 { return max(min(x, limit), -limit) }

func abs(x float32) float32 { return max(x, -x) }

// flag returns 1 for true and 0 for false.
func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// lessRoom returns how many fewer pods that request each fit into free once r is taken from it, up to
// limit.
func lessRoom(each, free, r cluster.Resources) float32 {
	return min(float32(each.FitsInto(free)-each.FitsInto(free.Minus(r))), limit)
}
