package openb

import "gnnsched/internal/cluster"

// Bound returns an upper bound of the fraction of the GPU capacity, 0 to 1, that any policy can
// allocate to the arrivals in their order, if it places every pod that fits somewhere, as
// kube-scheduler does. The bound also holds for policies that know all arrivals in advance.
//
// No pod leaves, so a shape that fits nowhere never fits again. Take a shape k of pods that share a
// device and ask for m thousandths of it, more than half. For every policy there is an arrival T
// such that every pod of shape k before T gets a node and none from T on. Then
//
//   - each k before T has a device without another k, with 1,000 - m thousandths left for pods that
//     ask for at most that. If all such pods together do not fill these remainders, the rest
//     stays idle:
//     allocated ≤ capacity - (1,000 - m) · (number of k before T) + (sum of all requests ≤ 1,000 - m);
//   - from T on, no pod gets a node that asks for at least as much as k of every resource:
//     allocated ≤ (sum of all requests before T) + (sum of the other requests from T on).
//
// The first limit falls with T and the second rises. For one shape, the bound is the maximum over T
// of the smaller limit. The result is the lowest bound of all shapes.
func Bound(nodes []Node, arrivals []Pod) float64 {
	capacity := GPUMilli(nodes)
	best := capacity
	for k := range largeShares(arrivals) {
		best = min(best, boundBy(k, capacity, arrivals))
	}
	return cluster.Fraction(best, capacity)
}

// share is the request of a pod for part of a device.
type share struct{ cpu, memory, milli int64 } // millicores, MiB, thousandths of a device

// largeShares returns the shapes that ask for more than half a device of any model.
func largeShares(arrivals []Pod) map[share]bool {
	out := map[share]bool{}
	for _, p := range arrivals {
		if p.GPUs == 1 && p.GPUMilli > cluster.DeviceMilli/2 && p.GPUMilli < cluster.DeviceMilli && len(p.Models) == 0 {
			out[share{p.MilliCPU, p.MemoryMiB, p.GPUMilli}] = true
		}
	}
	return out
}

// boundBy returns the bound from one shape, in thousandths of a device.
func boundBy(k share, capacity int64, arrivals []Pod) (highest int64) {
	left := cluster.DeviceMilli - k.milli
	var others int64 // requests of the pods from T on that may get a node
	var fill int64   // requests of all pods that fit beside a k
	for _, p := range arrivals {
		if asked := p.GPUs * p.GPUMilli; !k.within(p) {
			others += asked
			if p.GPUs == 1 && p.GPUMilli <= left {
				fill += asked
			}
		}
	}
	var before int64 // requests before T
	var came int64   // pods of shape k before T
	for i := 0; ; i++ {
		highest = max(highest, min(capacity-max(left*came-fill, 0), before+others))
		if i == len(arrivals) {
			return highest
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

// within reports whether p asks for at least as much as k of every resource, so that p fits only on
// nodes on which k fits.
func (k share) within(p Pod) bool {
	return p.GPUs > 0 && p.GPUMilli >= k.milli && p.MilliCPU >= k.cpu && p.MemoryMiB >= k.memory
}
