package sim

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
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

// queue counts the pods that arrive and wait, by kind, and what the waiting ones request.
type queue struct {
	quiet
	demand   cluster.Demand
	capacity cluster.Resources // see objective.Capacity
	share    float64           // what waiting pods request, as a share of capacity
	waits    []bool            // by arrival
	keys     []string          // by shape: its cluster.KindKey; shared by copies
}

func newQueue(e *Env) *queue {
	q := &queue{waits: make([]bool, len(e.arrivals.pods)), keys: make([]string, len(e.arrivals.shapes))}
	for shape, deployment := range e.arrivals.shapes {
		q.keys[shape] = cluster.KindKey(&e.arrivals.deployments[deployment].pod)
	}
	return q
}

func (q *queue) track(e *Env) {
	q.capacity, q.share = objective.Capacity(e.snapshot.Nodes), 0
	for pod, waits := range q.waits {
		if waits {
			q.share += objective.Share(e.deployment(int32(pod)).pod.Requests, q.capacity)
		}
	}
	e.snapshot.Demand = &q.demand
}

// WaitingCost returns what the term waiting costs if the arrivals with some indices in Plan wait.
func (e *Env) WaitingCost(arrivals []int) (cost float64) {
	for _, i := range arrivals {
		cost += e.cfg.Objective.Waiting() * objective.Share(e.deployment(int32(i)).pod.Requests, e.queue.capacity)
	}
	return cost
}

func (q *queue) arrives(e *Env, pod int32) {
	d := e.deployment(pod)
	q.demand.Arrive(q.keys[d.shape], &d.pod)
}

func (q *queue) refused(e *Env, pod int32) { e.fallen -= q.set(e, pod, 1) }

func (q *queue) placed(e *Env, pod, _ int32) { q.set(e, pod, -1) }

// set records that a pod begins to wait, or with sign -1 that it ends, and returns by how much the cost has risen.
func (q *queue) set(e *Env, pod int32, sign float64) (risen float64) {
	if q.waits[pod] == (sign > 0) {
		return 0
	}
	q.waits[pod] = sign > 0
	d := e.deployment(pod)
	q.demand.Wait(q.keys[d.shape], &d.pod, sign)
	share := sign * objective.Share(d.pod.Requests, q.capacity)
	q.share += share
	risen = e.cfg.Objective.Waiting() * share
	e.cost += risen
	return risen
}

// pass forgets pods that have left the queue without a node.
func (q *queue) pass(e *Env, _ float64) {
	if len(e.waiting) == 0 && q.share != 0 {
		clear(q.waits)
		q.demand.NoneWait()
		e.cost -= e.cfg.Objective.Waiting() * q.share
		q.share = 0
	}
}

func (q *queue) copyFor(e *Env, old []part) part {
	c := reused[queue](old)
	e.queue = c
	c.waits = append(c.waits[:0], q.waits...)
	c.capacity, c.share, c.keys = q.capacity, q.share, q.keys
	q.demand.CopyTo(&c.demand)
	e.snapshot.Demand = &c.demand
	return c
}

func (q *queue) report(e *Env, o *Outcome) {
	o.Waiting = q.share
	o.Cost += e.cfg.Objective.Waiting() * q.share
}
