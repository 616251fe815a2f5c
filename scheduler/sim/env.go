package sim

import (
	"fmt"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
)

// Env is one simulated cluster and its workload, an episode at a time. It is not safe for
// concurrent use; environments are independent of each other.
type Env struct {
	cfg Config

	snapshot cluster.Snapshot
	arrivals arrivals
	tracker  objective.Tracker
	cost     float64 // of the state as it is
	feasible feasible

	clock   int        // pods that have arrived
	running departures // those that will leave; empty without turnover
	waiting []int32    // arrivals without a node, the longest waiting first
	at      int        // where in waiting to look next
	full    []bool     // by shape: fits nowhere until somebody leaves
	queued  []bool     // by arrival: has had to wait

	pending int32 // arrival to place; -1 when the episode is over
	placed  int
	waited  int // pods that had to wait, placed later or not
	spread  overTime
}

// New returns an environment. Reset must come before anything else.
func New(cfg Config) (*Env, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	return &Env{cfg: cfg, pending: -1}, nil
}

// Config returns what the environment was made with.
func (e *Env) Config() Config { return e.cfg }

// Reset starts the episode of a seed. An error means that the configuration can give
// clusters without room for its load; the environment is then Done.
func (e *Env) Reset(seed uint64) error {
	*e = Env{cfg: e.cfg, pending: -1, running: e.running[:0], waiting: e.waiting[:0], feasible: feasible{rows: e.feasible.rows[:0]}}
	rng := stream(seed, streamWorkload)
	shapes, load := some(rng, e.cfg.ShapeKinds, e.cfg.Shapes), e.cfg.Load.draw(rng)
	e.snapshot.Nodes = e.cfg.drawNodes(seed)
	e.cfg.drawInitial(seed, e.snapshot.Nodes, shapes)
	var err error
	if e.arrivals, err = e.cfg.drawArrivals(seed, e.snapshot.Nodes, shapes, load); err != nil {
		return err
	}
	e.tracker = e.cfg.Objective.Track(e.snapshot.Nodes)
	e.cost = e.tracker.Cost()
	e.feasible.snapshot = &e.snapshot
	e.full, e.queued = make([]bool, len(shapes)), make([]bool, len(e.arrivals.pods))
	e.spread = newOverTime(e.snapshot.Nodes)
	e.advance()
	return nil
}

// Done tells whether the episode is over: every pod has a node, or never gets one.
func (e *Env) Done() bool { return e.pending < 0 }

// Snapshot is the cluster as it is. It belongs to the environment, which changes its nodes
// in Step and replaces them in Reset.
func (e *Env) Snapshot() *cluster.Snapshot { return &e.snapshot }

// Pending is the pod that needs a node now; its name is its deployment's. It must not be
// called when the episode is over, nor may Candidates and Step.
func (e *Env) Pending() *cluster.Pod { return &e.deployment(e.pending).pod }

// Candidates are the rows of the snapshot's nodes that the pending pod fits on, ascending;
// there is at least one. They belong to the environment and are valid until Step.
func (e *Env) Candidates() []int32 { return e.feasible.of(e.Pending()) }

// Step puts the pending pod on node Candidates()[choice] and goes on to the next pod that
// fits somewhere, or to the end. The reward is how much the placement lowered the
// objective's cost, less WaitCost for each pod that began to wait on the way; departures,
// which are nobody's choice, are not in it.
func (e *Env) Step(choice int) (reward float64) {
	row, pod := e.Candidates()[choice], e.pending
	e.change(row, e.deployment(pod).pod.Requests, 1)
	e.placed++
	if e.arrivals.lifetime != nil {
		from := float64(max(e.clock, e.arrivals.fill)) // nobody leaves while the cluster is filled
		e.running.push(departure{at: from + e.arrivals.lifetime[pod], pod: pod, node: row})
	}
	before := e.cost
	e.cost = e.tracker.Cost()
	reward = before - e.cost
	waited := e.waited
	e.advance()
	return reward - e.cfg.WaitCost*float64(e.waited-waited)
}

// Cost is the objective's cost of the state as it is.
func (e *Env) Cost() float64 { return e.cost }

func (e *Env) deployment(pod int32) *deployment { return &e.arrivals.deployments[e.arrivals.pods[pod]] }

// change adds a pod to a node or takes it away.
func (e *Env) change(row int32, r cluster.Resources, by int) {
	n := e.snapshot.Nodes[row]
	if by > 0 {
		n.Add(r)
	} else {
		n.Remove(r)
	}
	e.tracker.Update(int(row))
	e.feasible.update(row)
	e.spread.update(int(row))
}

// advance lets time pass until a pod is pending that fits somewhere, or the workload ends.
func (e *Env) advance() {
	for {
		if e.retry() {
			return
		}
		if e.clock == len(e.arrivals.pods) {
			e.pending = -1
			return
		}
		if e.clock >= e.arrivals.fill {
			e.spread.observe()
		}
		e.clock++
		e.at = len(e.waiting)
		if e.depart() {
			e.at = 0
		}
		e.waiting = append(e.waiting, int32(e.clock-1))
	}
}

// retry makes the first waiting pod that fits somewhere pending.
func (e *Env) retry() bool {
	for ; e.at < len(e.waiting); e.at++ {
		pod := e.waiting[e.at]
		d := e.deployment(pod)
		if !e.full[d.shape] {
			if len(e.feasible.of(&d.pod)) > 0 {
				e.waiting = append(e.waiting[:e.at], e.waiting[e.at+1:]...)
				e.pending = pod
				return true
			}
			e.full[d.shape] = true
		}
		if !e.queued[pod] {
			e.queued[pod] = true
			e.waited++
		}
	}
	return false
}

// depart takes away the pods whose time has come, and tells whether there were any.
func (e *Env) depart() bool {
	any := false
	for len(e.running) > 0 && e.running[0].at <= float64(e.clock) {
		d := e.running.pop()
		e.change(d.node, e.deployment(d.pod).pod.Requests, -1)
		any = true
	}
	if any {
		clear(e.full)
		e.cost = e.tracker.Cost()
	}
	return any
}
