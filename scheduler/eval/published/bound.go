package published

import (
	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/openb"
)

// Bound is a fraction of the cluster's GPUs that no policy can give to the arrivals, in their
// order, if it places every pod that fits somewhere, as kube-scheduler does. It holds for
// policies that know all arrivals beforehand, too.
//
// Nobody leaves, so what fits nowhere never fits again. Take one shape k of pods that share a
// device and ask for more than half of it, say for m of 1,000. Whatever the policy, there is an
// arrival T before which every pod of shape k gets a node and from which none does. Then
//
//   - each k before T has a device without another of its kind, of which 1,000 - m are left for
//     pods that ask for no more than that. All of these that ever come may be too few to fill it:
//     given ≤ capacity - (1,000 - m) · (k before T) + (all that ever ask for ≤ 1,000 - m);
//   - from T on nobody gets a node who asks for as much as k or more of everything:
//     given ≤ (all before T) + (the others from T on).
//
// The first falls with T and the second rises: the bound is the highest of the lower of the two
// over all T, for the shape for which it is lowest.
func Bound(nodes []openb.Node, arrivals []openb.Pod) float64 {
	capacity := openb.GPUMilli(nodes)
	best := capacity
	for k := range largeShares(arrivals) {
		best = min(best, boundBy(k, capacity, arrivals))
	}
	return cluster.Fraction(best, capacity)
}

// share is what a pod asks for that shares a device.
type share struct{ cpu, memory, milli int64 }

// largeShares are the shapes of more than half a device, of any model.
func largeShares(arrivals []openb.Pod) map[share]bool {
	out := map[share]bool{}
	for _, p := range arrivals {
		if p.GPUs == 1 && p.GPUMilli > cluster.DeviceMilli/2 && p.GPUMilli < cluster.DeviceMilli && len(p.Models) == 0 {
			out[share{p.MilliCPU, p.MemoryMiB, p.GPUMilli}] = true
		}
	}
	return out
}

// boundBy is the bound by one shape, in thousandths of a device.
func boundBy(k share, capacity int64, arrivals []openb.Pod) (bound int64) {
	left := cluster.DeviceMilli - k.milli
	var others, fill int64 // asked for by those who may get a node from T on; by those who fit beside a k
	for _, p := range arrivals {
		if asked := p.GPUs * p.GPUMilli; !k.within(p) {
			others += asked
			if p.GPUs == 1 && p.GPUMilli <= left {
				fill += asked
			}
		}
	}
	var before, came int64 // asked for before T, and how many k's
	for i := 0; ; i++ {
		bound = max(bound, min(capacity-max(left*came-fill, 0), before+others))
		if i == len(arrivals) {
			return bound
		}
		p := arrivals[i]
		asked := p.GPUs * p.GPUMilli
		if before += asked; !k.within(p) {
			others -= asked
		}
		if p.GPUs == 1 && len(p.Models) == 0 && k == (share{p.MilliCPU, p.MemoryMiB, p.GPUMilli}) {
			came++
		}
	}
}

// within tells whether p asks for as much as k or more of everything, so that it fits nowhere
// where k does not.
func (k share) within(p openb.Pod) bool {
	return p.GPUs > 0 && p.GPUMilli >= k.milli && p.MilliCPU >= k.cpu && p.MemoryMiB >= k.memory
}
