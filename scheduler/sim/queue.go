package sim

import (
	"math"
	"slices"
)

// Order is the order in which kube-scheduler, with its default settings, tries waiting pods of the same
// priority again. Pods are known by small numbers. Times are in seconds.
//
// When a pod is deleted, all waiting pods are tried again, because room on any node may help them
// (the queueing hint of NodeResourcesFit). A pod that has failed n times has a backoff of 2ⁿ⁻¹ seconds
// since the last time, at most 10. The pods without a backoff go first (activeQ), those that failed
// longest ago before the others. The pods with a backoff follow at once, because the queue is empty then
// (SchedulerPopFromBackoffQ, on by default since 1.33), in the order in which their backoffs end. Backoffs end with whole seconds,
// and pods that end in the same one are in the order of activeQ.
//
// Decisions take no time here. Pods that wait for five minutes without any deletion would be tried again
// as well; on a cluster where pods leave all the time there are none.
type Order struct {
	fails  []uint8   // by pod
	failed []float64 // by pod: the last time
	keys   []key     // memory of Sort
}

// key is a waiting pod with what it is sorted by.
type key struct {
	end float64 // second in which the backoff ends; -Inf if it has ended
	pod int32
}

const (
	firstBackoff = 1
	maxBackoff   = 10
	maxFails     = 5 // from so many failures on, the backoff is maxBackoff
)

// Reset makes o the order of so many pods, none of which has failed.
func (o *Order) Reset(pods int) {
	o.fails = append(o.fails[:0], make([]uint8, pods)...)
	o.failed = append(o.failed[:0], make([]float64, pods)...)
}

// Fail records that a pod found no node.
func (o *Order) Fail(pod int32, now float64) {
	o.fails[pod] = min(o.fails[pod]+1, maxFails)
	o.failed[pod] = now
}

// Sort puts waiting pods into the order in which they are tried after a deletion. Before, they are in the order
// in which they failed last.
func (o *Order) Sort(waiting []int32, now float64) {
	o.keys = o.keys[:0]
	backoff := false
	for _, pod := range waiting {
		k := key{end: math.Floor(o.failed[pod] + o.backoff(pod)), pod: pod}
		if k.end < math.Floor(now) {
			k.end = math.Inf(-1)
		} else {
			backoff = true
		}
		o.keys = append(o.keys, k)
	}
	if !backoff {
		return
	}
	slices.SortStableFunc(o.keys, func(a, b key) int {
		switch {
		case a.end < b.end:
			return -1
		case a.end > b.end:
			return 1
		}
		return 0
	})
	for i, k := range o.keys {
		waiting[i] = k.pod
	}
}

// backoff returns the seconds for which a pod waits after it failed.
func (o *Order) backoff(pod int32) float64 {
	return min(firstBackoff*float64(int(1)<<(max(o.fails[pod], 1)-1)), maxBackoff)
}

// CopyTo makes dst a copy of o.
func (o *Order) CopyTo(dst *Order) {
	dst.fails = append(dst.fails[:0], o.fails...)
	dst.failed = append(dst.failed[:0], o.failed...)
}
