package sim

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

// Env is one simulated cluster and its workload, an episode at a time. It is not safe for
// concurrent use; environments are independent of each other.
type Env struct {
	cfg   Config
	trace workload.Trace // nil where the configuration has none
	openb *OpenB         // likewise

	typical *fragmentation.Typical

	seed     uint64
	snapshot cluster.Snapshot
	arrivals arrivals
	tracker  objective.Tracker
	cost     float64 // of the state as it is
	feasible feasible

	clock   int                 // pods that have arrived
	now     float64             // the time
	running departures          // those that will leave; empty without turnover
	on      []int32             // by arrival: the row of its node, or -1
	devices []cluster.DeviceSet // by arrival: the GPUs that it is on
	waiting []int32             // arrivals without a node, the longest waiting first
	at      int                 // where in waiting to look next
	full    []bool              // by shape: fits nowhere until somebody leaves
	queued  []bool              // by arrival: has had to wait
	freed   []int32             // rows that somebody has just left

	pending int32 // arrival to place; -1 when the episode is over
	placed  int
	waited  int // pods that had to wait, placed later or not
	lost    bool
	evicted int // pods whose node went
	means   overTime
	gpus    gpuDemand
}

// New returns an environment. Reset must come before anything else.
func New(cfg Config) (*Env, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	e := &Env{cfg: cfg, pending: -1}
	if cfg.Trace != nil {
		var err error
		if e.trace, err = cfg.Trace.read(); err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
	}
	if cfg.OpenB != nil {
		var err error
		if e.openb, err = cfg.OpenB.read(); err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
	}
	e.typical = fragmentation.NewTypical(e.demand())
	return e, nil
}

// Config returns what the environment was made with.
func (e *Env) Config() Config { return e.cfg }

// Reset starts the episode of a seed. An error means that the configuration can give
// clusters without room for its load; the environment is then Done.
func (e *Env) Reset(seed uint64) error {
	*e = Env{
		cfg: e.cfg, trace: e.trace, openb: e.openb, typical: e.typical, seed: seed, pending: -1,
		running: e.running[:0], waiting: e.waiting[:0], freed: e.freed[:0], feasible: feasible{changed: e.feasible.changed[:0]},
	}
	if err := e.draw(); err != nil {
		return err
	}
	e.full, e.queued = make([]bool, len(e.arrivals.shapes)), make([]bool, len(e.arrivals.pods))
	e.on = make([]int32, len(e.arrivals.pods))
	e.devices = make([]cluster.DeviceSet, len(e.arrivals.pods))
	for i := range e.on {
		e.on[i] = -1
	}
	e.gpus = newGPUDemand(e.snapshot.Nodes, &e.arrivals)
	e.follow()
	e.advance()
	return nil
}

// draw makes cluster and workload of the episode.
func (e *Env) draw() (err error) {
	if e.openb != nil {
		e.snapshot.Nodes = e.openb.nodes(e.seed)
		e.arrivals, err = e.openb.arrivals(e.seed)
		return err
	}
	rng := stream(e.seed, streamWorkload)
	if e.trace != nil {
		e.snapshot.Nodes = e.cfg.drawNodes(e.seed)
		e.arrivals = fromTrace(window(rng, e.trace, e.cfg.Trace.Pods))
		return nil
	}
	shapes, load := some(rng, e.cfg.ShapeKinds, e.cfg.Shapes), e.cfg.Load.draw(rng)
	e.snapshot.Nodes = e.cfg.drawNodes(e.seed)
	e.cfg.drawInitial(e.seed, e.snapshot.Nodes, shapes)
	e.arrivals, err = e.cfg.drawArrivals(e.seed, e.snapshot.Nodes, shapes, load)
	return err
}

// follow starts to follow the snapshot's nodes, which are others than before.
func (e *Env) follow() {
	e.tracker = e.cfg.Objective.Track(e.snapshot.Nodes)
	e.cost = e.tracker.Cost()
	e.feasible.follow(&e.snapshot, len(e.arrivals.shapes))
	e.means.follow(e.snapshot.Nodes)
}

// Done tells whether the episode is over: every pod has a node, or never gets one.
func (e *Env) Done() bool { return e.pending < 0 }

// Snapshot is the cluster as it is. It belongs to the environment, which changes its nodes
// in Step, replaces them in Reset, and makes the slice shorter where Lose says so.
func (e *Env) Snapshot() *cluster.Snapshot { return &e.snapshot }

// Pending is the pod that needs a node now; its name is its deployment's. It must not be
// called when the episode is over, nor may Candidates and Step.
func (e *Env) Pending() *cluster.Pod { return &e.deployment(e.pending).pod }

// Candidates are the rows of the snapshot's nodes that the pending pod fits on, ascending;
// there is at least one. They belong to the environment and are valid until Step.
func (e *Env) Candidates() []int32 {
	d := e.deployment(e.pending)
	return e.feasible.of(&d.pod, d.shape)
}

// Step is StepOn with the devices that cluster.Node.ChooseDevices chooses.
func (e *Env) Step(choice int) (reward float64) {
	n := e.snapshot.Nodes[e.Candidates()[choice]]
	return e.StepOn(choice, n.ChooseDevices(e.Pending().Requests))
}

// StepOn puts the pending pod on node Candidates()[choice], on the given devices of it, and
// goes on to the next pod that fits somewhere, or to the end. The reward is how much the placement lowered the
// objective's cost, less WaitCost for each pod that began to wait on the way; departures,
// which are nobody's choice, are not in it.
func (e *Env) StepOn(choice int, on cluster.DeviceSet) (reward float64) {
	row, pod := e.Candidates()[choice], e.pending
	e.snapshot.Nodes[row].AddOn(e.deployment(pod).pod.Requests, on)
	e.devices[pod] = on
	e.changed(row)
	e.placed++
	e.on[pod] = row
	if !e.arrivals.stays(pod) {
		from := max(e.now, float64(e.arrivals.fill)) // nobody leaves while the cluster is filled
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

// changed takes note that a node has one pod more or less.
func (e *Env) changed(row int32) {
	e.tracker.Update(int(row))
	e.feasible.update(row)
	e.means.update(int(row))
}

// advance lets time pass until a pod is pending that fits somewhere, or the workload ends.
func (e *Env) advance() {
	for {
		if e.retry() {
			return
		}
		if e.loseNodes() {
			continue
		}
		if e.clock == len(e.arrivals.pods) {
			e.pending = -1
			return
		}
		next := e.arrivals.at[e.clock]
		if e.arrivals.exact && len(e.running) > 0 && e.running[0].at < next {
			e.pass(e.running[0].at)
			e.depart()
			continue
		}
		e.pass(next)
		e.gpus.arrive(e.deployment(int32(e.clock)).pod.Requests, e.snapshot.Nodes)
		e.clock++
		e.at = len(e.waiting)
		e.depart()
		e.waiting = append(e.waiting, int32(e.clock-1))
	}
}

// pass lets time pass in which nothing happens.
func (e *Env) pass(until float64) {
	if e.clock >= e.arrivals.fill {
		e.means.observe(until-e.now, e.cost, len(e.waiting))
	}
	e.now = until
}

// retry makes the first waiting pod that fits somewhere pending.
func (e *Env) retry() bool {
	for ; e.at < len(e.waiting); e.at++ {
		pod := e.waiting[e.at]
		d := e.deployment(pod)
		if !e.full[d.shape] {
			if len(e.feasible.of(&d.pod, d.shape)) > 0 {
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

// depart takes away the pods whose time has come. Those that wait and now fit are looked at
// again.
func (e *Env) depart() {
	e.freed = e.freed[:0]
	for len(e.running) > 0 && e.running[0].at <= e.now {
		d := e.running.pop()
		e.snapshot.Nodes[d.node].Remove(e.deployment(d.pod).pod.Requests, e.devices[d.pod])
		e.changed(d.node)
		e.on[d.pod] = -1
		e.freed = append(e.freed, d.node)
	}
	if len(e.freed) == 0 {
		return
	}
	e.cost = e.tracker.Cost()
	for shape, full := range e.full {
		if full && e.fitsFreed(int32(shape)) {
			e.full[shape], e.at = false, 0
		}
	}
}

// fitsFreed tells whether pods of a shape fit on a node that somebody has just left.
func (e *Env) fitsFreed(shape int32) bool {
	pod := &e.arrivals.deployments[e.arrivals.shapes[shape]].pod
	for _, row := range e.freed {
		if e.snapshot.Nodes[row].Fit(pod) == cluster.Fits {
			return true
		}
	}
	return false
}
