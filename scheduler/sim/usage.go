package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim/meter"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// Usage says that pods use what their models say, and how that is played. It begins after the fill. Pods
// without a model use what they request. A pod whose model has work leaves when it has done the work, whatever
// its lifetime.
type Usage struct {
	// Unit is the number of seconds in a unit of time. Default: 1, as in a trace.
	Unit float64 `json:"unit,omitempty"`
	// Tick is the number of seconds between two measurements. Default: 60.
	Tick float64 `json:"tick,omitempty"`
	// Known is the fraction of the deployments of whose workload earlier pods ran, so that policies know what those
	// used. The seed decides which. From 0 to 1.
	Known float64 `json:"known,omitempty"`
	// Network and Disk are the limits of each node in each direction, in bytes per second. Default: no limit.
	Network float64 `json:"network,omitempty"`
	Disk    float64 `json:"disk,omitempty"`
}

// The bounds of Usage, in seconds.
const (
	maxUnit = 86400
	maxTick = 3600
)

// validateUsage checks the usage of the configuration and of its pods.
func (c Config) validateUsage(bad *exit.Faults) {
	if c.Usage == nil {
		bad.If(slices.ContainsFunc(c.Shapes, func(s workload.Shape) bool { return s.Usage != nil }),
			"usage: is missing, but shapes have usage; give at least the seconds in a unit of time, usage: {unit: 10}")
		for _, w := range c.Objective {
			bad.If(objective.Measured(w.Term), "objective: %s is about measured usage, but the scenario has none; give usage", w.Term.Name())
		}
		return
	}
	for _, x := range []struct {
		field          string
		v, least, most float64
	}{
		{"unit", c.Usage.unit(), 1e-3, maxUnit}, {"tick", c.Usage.tick(), 1, maxTick},
		{"known", c.Usage.Known, 0, 1}, {"network", c.Usage.Network, 0, 1e12}, {"disk", c.Usage.Disk, 0, 1e12},
	} {
		bad.If(!(x.v >= x.least && x.v <= x.most), "usage.%s: %v is not %g to %g", x.field, x.v, x.least, x.most)
	}
	bad.If(c.Initial > 0, "usage: the pods of initial have no usage; leave initial out")
	bad.If(c.OpenB != nil, "usage: the pods of the openb trace have no usage; leave it out")
}

// Limits returns the limits of each node.
func (u Usage) Limits() usage.Limits { return usage.Limits{Network: u.Network, Disk: u.Disk} }

func (u Usage) unit() float64 { return cmp.Or(u.Unit, 1) }

func (u Usage) tick() float64 { return cmp.Or(u.Tick, 60) }

// usageState plays the usage of an episode. It is due at each measurement.
type usageState struct {
	quiet
	meter  meter.Meter
	seed   uint64
	begin  float64 // time of the episode at which the meter's time begins: the end of the fill
	tick   float64 // seconds
	window int     // measurements in a window
	ticks  int     // so far
	next   float64 // time of the episode of the next measurement
	bound  []int   // by arrival: measurements when its pod was bound
}

func newUsageState(e *Env) *usageState {
	c := e.cfg.Usage
	rng := stream(e.seed, streamUsage)
	u := &usageState{begin: float64(e.arrivals.fill), tick: c.tick(), seed: rng.Uint64(), bound: make([]int, len(e.arrivals.pods))}
	u.window = max(int(math.Round(cluster.UsageWindow/u.tick)), 1)
	u.meter = *meter.New(meter.Config{
		Tick: u.tick, Start: math.Floor(rng.Float64() * 86400), Pods: len(e.arrivals.pods),
		Capacity: c.Limits().Amounts(),
	}, nil)
	e.drawKnown(c.Known, rng)
	u.next = u.begin
	e.due = min(e.due, u.next)
	return u
}

// drawKnown draws which deployments have a workload that ran before. Pods that use what they request need none.
func (e *Env) drawKnown(fraction float64, rng *rand.Rand) {
	if fraction == 0 {
		return
	}
	for i := range e.arrivals.deployments {
		d := &e.arrivals.deployments[i]
		if d.usage == nil || rng.Float64() >= fraction {
			continue
		}
		u, known := e.earlier.Load(d.usage)
		if !known { // the deployments of a shape share its model and its limits
			u = meter.Earlier(d.usage, d.pod.Limits.MilliCPU)
			e.earlier.Store(d.usage, u)
		}
		d.pod.Usage = u.(*cluster.PodUsage)
	}
}

// usageAt returns a time of the episode in seconds since usage began, which is the end of the fill; 0 without usage.
func (e *Env) usageAt(at float64) float64 {
	if e.cfg.Usage == nil {
		return 0
	}
	return max(at-float64(e.arrivals.fill), 0) * e.cfg.Usage.unit()
}

func (u *usageState) placed(e *Env, pod, row int32) {
	d, at := e.deployment(pod), e.usageAt(e.now)
	u.meter.Place(pod, row, meter.Pod{
		Model: d.usage, Seed: u.seed ^ uint64(pod+1)*0xd6e8feb86659fd93, Request: d.pod.Requests, Limit: d.pod.Limits.MilliCPU,
	}, at)
	if n := e.snapshot.Nodes[row].Usage; n != nil {
		u.bound[pod] = u.ticks
		recent := cluster.RecentPod{ID: int(pod), At: at, Requests: d.pod.Requests, Limits: d.pod.Limits, Expected: d.pod.ExpectedAll()}
		n.Recent = append(n.Recent, recent)
		n.Expect(u.missing)
	}
}

// forget drops the pods that were bound before the window of the last measurement, and reckons with what that
// measurement lacks of the others. They are in the order of time.
func (u *usageState) forget(nodes []*cluster.Node) {
	for _, n := range nodes {
		recent := n.Usage.Recent
		if len(recent) == 0 {
			continue // nothing is missing
		}
		old := 0
		for old < len(recent) && recent[old].At <= n.Usage.At-cluster.UsageWindow {
			old++
		}
		n.Usage.Recent = slices.Delete(recent, 0, old)
		n.Usage.Expect(u.missing)
	}
}

// missing returns the share of a pod's usage that the mean of the last measurements lacks: those of the window that
// were made before it came.
func (u *usageState) missing(p *cluster.RecentPod) float64 {
	within := float64(min(u.window, u.ticks))
	return max(1-float64(u.ticks-u.bound[p.ID])/within, 0)
}

func (u *usageState) left(e *Env, pod, row int32) {
	u.meter.Remove(pod, row)
	n := e.snapshot.Nodes[row].Usage
	if n == nil {
		return
	}
	i := slices.IndexFunc(n.Recent, func(p cluster.RecentPod) bool { return p.ID == int(pod) })
	if i >= 0 {
		n.Recent = slices.Delete(n.Recent, i, i+1)
		n.Expect(u.missing)
	}
}

func (u *usageState) track(e *Env) { u.meter.Track(e.snapshot.Nodes, e.on) }

// due measures. Batch jobs that are done leave first; the measurement itself waits until pods that find room thereby have been placed.
func (u *usageState) due(e *Env) float64 {
	if e.now < u.next {
		return u.next
	}
	if ended := u.meter.Ended(); len(ended) > 0 {
		for _, pod := range ended {
			if e.on[pod] >= 0 {
				e.running.push(departure{at: e.now, pod: pod})
			}
		}
		e.depart()
		return u.next
	}
	e.snapshot.Now = e.usageAt(e.now)
	u.meter.Tick(e.snapshot.Now)
	e.measured()
	u.ticks++
	u.next = u.begin + float64(u.ticks)*u.tick/e.cfg.Usage.unit()
	u.forget(e.snapshot.Nodes)
	before := e.cost
	e.price()
	e.fallen += before - e.cost
	return u.next
}

func (u *usageState) copyFor(e *Env, old []part) part {
	c := reused[usageState](old)
	m, bound := c.meter, append(c.bound[:0], u.bound...)
	*c = *u
	c.meter, c.bound = m, bound
	u.meter.CopyTo(&c.meter, e.snapshot.Nodes)
	return c
}

// UsageOutcome describes what the pods of an episode used and lost, from the end of the fill on.
type UsageOutcome struct {
	Throttled     float64 `json:"throttled"`     // core-seconds that services wanted, within their limits, and did not get
	ThrottledPart float64 `json:"throttledPart"` // of what they wanted
	BatchSlowdown float64 `json:"batchSlowdown"` // time that batch jobs took / time with all the CPU they wanted; 1 without jobs
	Finished      int     `json:"finished"`      // batch jobs that have done their work
	Utilisation   float64 `json:"utilisation"`   // CPU used / CPU of the available nodes, mean over time
	InUse         float64 `json:"inUse"`         // fraction in use, mean over the nodes, the dimensions that any node uses, and time
	Watts         float64 `json:"watts"`         // that the available nodes drew, mean over time
	JoulesOfWork  float64 `json:"joulesOfWork"`  // joules for a core-second of CPU used
	HotTime       float64 `json:"hotTime"`       // share of node-time in which over 80 % of a node's CPU, network or disk is used
	// mean over time, and over the dimensions that nodes use, of the standard deviation of the nodes' fractions
	Imbalance float64 `json:"imbalance"`
}

func (u *usageState) report(_ *Env, out *Outcome) { out.Usage = usageOf(u.meter.Totals()) }

// usageOf returns the outcome of what was measured.
func usageOf(t meter.Totals) *UsageOutcome {
	o := &UsageOutcome{
		Throttled: t.Throttled, ThrottledPart: t.Throttled / max(t.Wanted, 1e-9), BatchSlowdown: 1, Finished: t.Finished,
		Utilisation: t.CPU / max(t.Capacity, 1e-9), HotTime: t.HotTime / max(t.NodeTime, 1e-9), Imbalance: t.Imbalance / max(t.Seconds, 1e-9),
		InUse: t.Used / max(t.Seconds, 1e-9),
		Watts: t.Joules / max(t.Seconds, 1e-9), JoulesOfWork: t.Joules / max(t.CPU, 1e-9),
	}
	if t.BatchGot > 0 {
		o.BatchSlowdown = t.BatchWanted / t.BatchGot
	}
	return o
}
