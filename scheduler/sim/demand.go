package sim

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

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
