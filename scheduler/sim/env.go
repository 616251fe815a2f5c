package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/preference"
)

// Env simulates one cluster and its workload, one episode at a time. It is not safe for concurrent
// use; environments are independent of each other.
type Env struct {
	cfg    Config
	source source

	typical *fragmentation.Typical
	lasting *fragmentation.Typical // nil without Steady
	demand  []fragmentation.Demand // of the pods that arrive

	seed     uint64
	snapshot cluster.Snapshot
	seen     *cluster.Snapshot // what policies see: the snapshot, unless a part shows another
	arrivals arrivalList
	tracker  objective.Tracker
	measured func()  // tells the tracker of a measurement
	cost     float64 // of the present state
	feasible feasibleNodes

	parts       []part
	preferences *preferences // one of the parts
	queue       *queue       // likewise
	due         float64      // when the parts are called next; +Inf: never
	fallen      float64      // by how much the cost has fallen at such times since the last choice

	clock   int                 // pods that have arrived
	now     float64             // the time
	running departures          // the running pods that will leave; empty without turnover
	on      []int32             // by arrival: the row of its node, or -1
	devices []cluster.DeviceSet // by arrival: its GPU devices
	start   int                 // where the partition of the last placed pod begins
	waiting []int32             // arrivals without a node, the longest waiting first
	at      int                 // index in waiting of the next pod to retry
	full    []bool              // by shape: fits nowhere until a pod leaves
	queued  []bool              // by arrival: has had to wait
	freed   []int32             // rows of the nodes that pods have just left

	pending int32 // arrival to place; -1 when the episode is over
	placed  int
	waited  int       // pods that had to wait, whether placed later or not
	lost    bool      // the nodes of Config.Lose are gone
	evicted int       // pods whose node was lost
	earlier *sync.Map // from a *usage.Model to the *cluster.PodUsage of earlier pods with it; copies share it
}

// New returns an environment of a configuration and reads the configuration's files. Call Reset
// before anything else. A file that is missing or malformed is an error with exit code 2.
func New(cfg Config) (*Env, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	if cfg.MIG != nil {
		cfg.Given = cfg.MIG.given()
	}
	e := &Env{cfg: cfg, pending: -1, earlier: &sync.Map{}}
	var err error
	if e.source, err = cfg.source(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("simulator: %w", err),
			"the scenario names the file; a relative path is looked up beside the scenario's file, then in the working directory")
	}
	arriving, running := e.source.demand()
	e.typical, e.lasting = fragmentation.NewTypical(arriving), fragmentation.NewTypical(running)
	e.demand = arriving
	return e, nil
}

// Config returns the configuration that the environment was made with.
func (e *Env) Config() Config { return e.cfg }

// MaxNodes returns the largest number of nodes that an episode can have.
func (e *Env) MaxNodes() int {
	if e.cfg.OpenB != nil || e.cfg.Given != nil {
		return len(e.source.nodes(0))
	}
	most := e.cfg.Nodes.Max
	for _, p := range e.cfg.Pools {
		most += p.Count.Max
	}
	if e.cfg.ControlPlane {
		most++
	}
	return most
}

// FixedWorkload reports whether the same pods arrive at the same times on every seed, as they do if a
// trace is played as it was recorded. Results are then a sample of one workload, however many seeds.
func (e *Env) FixedWorkload() bool { return e.source.fixed() }

// Reset starts the episode of a seed. It fails if the drawn cluster has no room for the load; the
// environment is then Done.
func (e *Env) Reset(seed uint64) error {
	*e = Env{
		cfg: e.cfg, source: e.source, typical: e.typical, lasting: e.lasting, demand: e.demand, earlier: e.earlier, seed: seed, pending: -1,
		due:     math.Inf(1),
		running: e.running[:0], waiting: e.waiting[:0], freed: e.freed[:0], feasible: feasibleNodes{changed: e.feasible.changed[:0]},
	}
	e.snapshot.Nodes, e.seen = e.source.nodes(seed), &e.snapshot
	var err error
	if e.arrivals, err = e.source.arrivals(seed, e.snapshot.Nodes); err != nil {
		return err
	}
	e.full, e.queued = make([]bool, len(e.arrivals.shapes)), make([]bool, len(e.arrivals.pods))
	e.on = make([]int32, len(e.arrivals.pods))
	e.devices = make([]cluster.DeviceSet, len(e.arrivals.pods))
	for i := range e.on {
		e.on[i] = -1
	}
	e.parts = newParts(e)
	e.track()
	e.advance()
	return nil
}

// track starts to track the snapshot's nodes after the list of nodes has changed.
func (e *Env) track() {
	for _, p := range e.parts {
		p.track(e)
	}
	e.follow()
}

// follow starts to follow the cost of the snapshot's nodes, and what fits there.
func (e *Env) follow() {
	e.tracker = e.cfg.Objective.Track(e.snapshot.Nodes)
	e.measured = objective.Told(e.tracker)
	e.price()
	e.feasible = feasibleNodes{snapshot: &e.snapshot, shapes: make([]fitting, len(e.arrivals.shapes)), changed: e.feasible.changed[:0]}
}

// price brings the cost up to date.
func (e *Env) price() {
	e.cost = e.tracker.Cost()
	if w := e.cfg.Objective.Waiting(); w > 0 {
		e.cost += w * e.queue.share
	}
}

// Done reports whether the episode is over: every pod has a node or never gets one.
func (e *Env) Done() bool { return e.pending < 0 }

// Snapshot returns the present state of the cluster. It belongs to the environment, which changes
// the nodes in Step, replaces them in Reset and removes the nodes that Config.Lose takes.
//
// A pod that requests a MIG partition sees those GPUs of its candidates as full that have no place for it; Nodes does not.
func (e *Env) Snapshot() *cluster.Snapshot {
	if e.pending >= 0 && e.preferences != nil {
		e.seen.Preferred = e.preferences.count(e)
	}
	return e.seen
}

// Nodes returns the nodes as they are.
func (e *Env) Nodes() []*cluster.Node { return e.snapshot.Nodes }

// Pending returns the pod that needs a node now, with the name of its deployment. Pending,
// Candidates and Step must not be called when the episode is over.
func (e *Env) Pending() *cluster.Pod { return &e.deployment(e.pending).pod }

// Candidates returns the rows of the snapshot's nodes that the pending pod fits on: at least one,
// ascending. The slice belongs to the environment and is valid until Step.
func (e *Env) Candidates() []int32 {
	d := e.deployment(e.pending)
	return e.feasible.of(&d.pod, d.shape)
}

// Step does what StepOn does, on the devices that cluster.Node.ChooseDevices chooses.
func (e *Env) Step(choice int) (reward float64) {
	n := e.seen.Nodes[e.Candidates()[choice]]
	return e.StepOn(choice, n.ChooseDevices(e.Pending().Requests))
}

// StepOn does what StepAt does. A partition begins where it leaves most placements free.
func (e *Env) StepOn(choice int, on cluster.DeviceSet) (reward float64) {
	start := 0
	if p := e.Pending().Partition; p != mig.None {
		start = p.BestStart(e.snapshot.Nodes[e.Candidates()[choice]].Slices[bits.TrailingZeros64(uint64(on))])
	}
	return e.StepAt(choice, on, start)
}

// StepAt puts the pending pod on the given devices of node Candidates()[choice]. Then time passes
// until the next pod that fits somewhere, or to the end. The reward is how much the placement
// lowered the objective's cost, minus Config.WaitCost for each pod that began to wait meanwhile.
// Departures do not count, because no choice causes them. What nodes use changes only while time passes:
// with Config.Usage the reward includes how much the measurements until the next pod lowered the cost. A partition begins at the memory
// slice start of its device.
func (e *Env) StepAt(choice int, on cluster.DeviceSet, start int) (reward float64) {
	pod, before := e.pending, e.cost
	e.place(e.Candidates()[choice], on, start)
	e.placed++
	if !e.arrivals.stays(pod) && !e.deployment(pod).works() {
		from := max(e.now, float64(e.arrivals.fill)) // no pod leaves during the fill
		e.running.push(departure{at: from + e.arrivals.lifetime[pod], pod: pod})
	}
	e.price()
	reward, e.fallen = before-e.cost, 0
	waited := e.waited
	e.advance()
	return reward + e.fallen - e.cfg.WaitCost*float64(e.waited-waited)
}

// place starts the pending pod on the node of a row.
func (e *Env) place(row int32, on cluster.DeviceSet, start int) {
	pod := e.pending
	e.snapshot.Nodes[row].AddOn(e.deployment(pod).pod.Requests, on)
	e.devices[pod], e.start = on, start
	e.changed(row)
	e.on[pod] = row
	for _, p := range e.parts {
		p.placed(e, pod, row)
	}
}

// Waited returns the number of pods that have had to wait so far, whether they have a node by now or
// not.
func (e *Env) Waited() int { return e.waited }

// Filled reports whether the fill is over: means over time (Outcome) count from then on.
func (e *Env) Filled() bool { return e.clock >= e.arrivals.fill }

// FillEnd returns when the fill ends, before which no pod leaves; 0 for a trace.
func (e *Env) FillEnd() float64 { return float64(e.arrivals.fill) }

// Cost returns the objective's cost of the present state.
func (e *Env) Cost() float64 { return e.cost }

func (e *Env) deployment(pod int32) *deployment { return &e.arrivals.deployments[e.arrivals.pods[pod]] }

// changed records that a pod came to a node or left it.
func (e *Env) changed(row int32) {
	e.tracker.Update(int(row))
	e.feasible.update(row)
}

// advance lets time pass until a pod that fits somewhere is pending, or the workload ends.
func (e *Env) advance() {
	e.seen = &e.snapshot
	for {
		if e.retry() {
			for _, p := range e.parts {
				p.pends(e)
			}
			return
		}
		if e.loseNodes() {
			continue
		}
		next, more := e.next()
		if !more && next <= e.now {
			e.pending = -1
			return
		}
		if leaves := e.leaves(); leaves < next && leaves < e.due {
			e.pass(leaves)
			e.depart()
			continue
		}
		if e.due <= next && e.Filled() {
			e.pass(e.due)
			e.due = math.Inf(1)
			for _, p := range e.parts {
				e.due = min(e.due, p.due(e))
			}
			continue
		}
		e.pass(next)
		if !more {
			continue
		}
		for _, p := range e.parts {
			p.arrives(e, int32(e.clock))
		}
		e.clock++
		e.at = len(e.waiting)
		e.depart()
		e.waiting = append(e.waiting, int32(e.clock-1))
	}
}

// leaves returns when the next pod leaves at a time of its own; +Inf if none does.
func (e *Env) leaves() float64 {
	if !e.arrivals.exact || len(e.running) == 0 {
		return math.Inf(1)
	}
	return e.running[0].at
}

// next returns the time of the next arrival, or without any the time of the end.
func (e *Env) next() (at float64, more bool) {
	if e.clock < len(e.arrivals.pods) {
		return e.arrivals.at[e.clock], true
	}
	return e.arrivals.end, false
}

// pass lets time pass during which nothing happens.
func (e *Env) pass(until float64) {
	if e.Filled() {
		for _, p := range e.parts {
			p.pass(e, until)
		}
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
		for _, p := range e.parts {
			p.refused(e, pod)
		}
		if !e.queued[pod] {
			e.queued[pod] = true
			e.waited++
		}
	}
	return false
}

// CopyTo makes dst an environment in the same state, with the same future: the arrivals, lifetimes and
// lost nodes that are still to come. The two then go on independently of each other. So a copy can
// try a choice, which no scheduler can. Costs agree up to rounding. CopyTo uses dst's memory again;
// dst may be a zero Env.
func (e *Env) CopyTo(dst *Env) {
	old := *dst
	*dst = *e
	dst.snapshot.Nodes = copyNodes(old.snapshot.Nodes, e.snapshot.Nodes)
	dst.snapshot.Peers, dst.snapshot.Beyond = old.snapshot.Peers[:0], old.snapshot.Beyond[:0]
	dst.seen = &dst.snapshot
	dst.running = append(old.running[:0], e.running...)
	dst.on = append(old.on[:0], e.on...)
	dst.devices = append(old.devices[:0], e.devices...)
	dst.waiting = append(old.waiting[:0], e.waiting...)
	dst.full = append(old.full[:0], e.full...)
	dst.queued = append(old.queued[:0], e.queued...)
	dst.freed = append(old.freed[:0], e.freed...)
	dst.feasible = feasibleNodes{changed: old.feasible.changed[:0]}
	dst.parts = make([]part, len(e.parts))
	for i, p := range e.parts {
		dst.parts[i] = p.copyFor(dst, old.parts)
	}
	dst.follow()
	if !dst.Done() {
		for _, p := range dst.parts {
			p.pends(dst)
		}
	}
}

// feasibleNodes keeps, for each shape of pods, the nodes that they fit on. A step changes one node,
// so when a pod of a shape arrives, only the nodes that changed since the last such pod are checked
// again.
type feasibleNodes struct {
	snapshot *cluster.Snapshot
	shapes   []fitting // by shape
	known    int       // shapes whose nodes are kept
	changed  []int32   // rows in the order in which they changed, with repetitions
}

// fitting is the nodes that pods of one shape fit on.
type fitting struct {
	known bool
	rows  []int32 // ascending
	upTo  int     // rows reflects changed[:upTo]
}

// maxFitting bounds the memory for workloads in which every pod has another shape.
const maxFitting = 512

// of returns the rows of the nodes that a pod of the given shape fits on, ascending.
func (f *feasibleNodes) of(pod *cluster.Pod, shape int32) []int32 {
	s := &f.shapes[shape]
	if !s.known || len(f.changed)-s.upTo > len(f.snapshot.Nodes) {
		f.checkAll(s, pod)
	}
	for _, row := range f.changed[s.upTo:] {
		s.update(row, f.snapshot.Nodes[row].Fit(pod) == cluster.Fits)
	}
	s.upTo = len(f.changed)
	return s.rows
}

// checkAll checks all nodes for a shape.
func (f *feasibleNodes) checkAll(s *fitting, pod *cluster.Pod) {
	if !s.known {
		if f.known == maxFitting {
			clear(f.shapes)
			f.known = 0
		}
		f.known++
	}
	s.known = true
	s.upTo = len(f.changed)
	s.rows = f.snapshot.Feasible(pod, s.rows[:0])
}

func (s *fitting) update(row int32, fits bool) {
	at, in := slices.BinarySearch(s.rows, row)
	switch {
	case fits && !in:
		s.rows = slices.Insert(s.rows, at, row)
	case !fits && in:
		s.rows = slices.Delete(s.rows, at, at+1)
	}
}

// update records that a node has changed.
func (f *feasibleNodes) update(row int32) { f.changed = append(f.changed, row) }

// PreferenceModes are the modes that an environment knows. Blend is not among them: the scores of
// LearnedScore, which it adds to others, exist in a scheduler only.
var PreferenceModes = []preference.Mode{preference.First, preference.Declared, preference.Off}

// PreferenceMode returns Preferences or its default.
func (c Config) PreferenceMode() preference.Mode { return cmp.Or(c.Preferences, preference.First) }

// preferences rates the candidates of the pending pod, at most once for each decision.
type preferences struct {
	quiet
	scorer  *preference.Scorer
	running [][]int32          // by deployment, if its pods have an owner: the rows of its running pods
	rated   bool               // sums are those of the pending pod
	by      preference.Weights // of sums
	sums    []int64
	best    []int32 // reused
	counted int     // candidates that preferences leave; 0 if they are not counted yet
}

func (p *preferences) track(e *Env) {
	*p = preferences{scorer: preference.NewScorer(e.cfg.PreferenceMode(), e.snapshot.Nodes)}
	if !p.scorer.Spreads() {
		return
	}
	p.running = make([][]int32, len(e.arrivals.deployments))
	for pod, row := range e.on {
		if row >= 0 {
			p.placed(e, int32(pod), row)
		}
	}
}

func (p *preferences) copyFor(e *Env, _ []part) part {
	e.preferences = &preferences{}
	e.preferences.track(e)
	return e.preferences
}

func (p *preferences) pends(*Env) { p.rated, p.counted = false, 0 }

// count returns how many candidates preferences leave.
func (p *preferences) count(e *Env) int {
	if p.counted == 0 {
		p.counted = len(e.Preferred())
	}
	return p.counted
}

func (p *preferences) placed(e *Env, pod, row int32) {
	d := e.deployment(pod)
	if p.running == nil || d.pod.Owner == "" {
		return
	}
	rows := &p.running[e.arrivals.pods[pod]]
	if *rows == nil {
		*rows = make([]int32, 0, d.replicas)
	}
	*rows = append(*rows, row)
}

func (p *preferences) left(e *Env, pod, row int32) {
	if p.running == nil || e.deployment(pod).pod.Owner == "" {
		return
	}
	rows := &p.running[e.arrivals.pods[pod]]
	i, last := slices.Index(*rows, row), len(*rows)-1
	(*rows)[i] = (*rows)[last]
	*rows = (*rows)[:last]
}

// of returns the rows of the running pods of a deployment.
func (p *preferences) of(deployment int32) []int32 {
	if p.running == nil {
		return nil
	}
	return p.running[deployment]
}

// Preferences is PreferencesBy with upstream's weights.
func (e *Env) Preferences() []int64 { return e.PreferencesBy(preference.Upstream) }

// PreferencesBy returns the weighted sum of upstream's preference scores of each candidate, or nil if
// all candidates are preferred alike. It is valid until Step, or until a call with other weights.
func (e *Env) PreferencesBy(w preference.Weights) []int64 {
	p := e.preferences
	if !p.rated || p.by != w {
		p.rated, p.by, p.sums = true, w, nil
		if pod := e.Pending(); p.scorer.Rates(pod) {
			p.sums = p.scorer.SumsBy(w, pod, e.Candidates(), p.of(e.arrivals.pods[e.pending]))
		}
	}
	return p.sums
}

// Preferred returns the indices of the candidates that preferences, default spreading included, leave
// to an agent that learns from its own choices, ascending. It is valid until Step, which also takes
// any other candidate: default spreading is weighed against a policy's scores, and kube-scheduler's
// default profile weighs all preferences against resources.
func (e *Env) Preferred() []int32 {
	p := e.preferences
	p.best = p.best[:0]
	if sums := e.Preferences(); sums != nil {
		p.best = preference.Best(sums, p.best)
		return p.best
	}
	for i := range e.Candidates() {
		p.best = append(p.best, int32(i))
	}
	return p.best
}
