package sim

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload/trace/openb"
)

// OpenB takes the nodes and pods of an openb trace. They are read from two files, or given as values
// by a program.
//
// With a Factor an episode follows the published protocol. The pods arrive one by one in an order
// that the seed draws. Then more pods are drawn from them at random, until all have requested
// Factor times the GPUs there are. No pod leaves, and a pod that does not fit when it arrives never
// gets a node.
//
// With Steady, pods that the seed draws come and go.
//
// Without either the pods come and go at the trace's times, resampled as in Resampling.
type OpenB struct {
	NodesFile string  `json:"nodes,omitempty"`  // openb_node_list_*.csv
	PodsFile  string  `json:"pods,omitempty"`   // openb_pod_list_*.csv
	Factor    float64 `json:"factor,omitempty"` // 1.3 in the publication; 0: the trace's times
	// InOrder keeps the nodes in the order of their file. Otherwise the seed shuffles them. The
	// published runs must have shuffled them too: most policies take the first of tied nodes,
	// and only a shuffled order reproduces their published spread over seeds.
	InOrder bool `json:"inOrder,omitempty"`
	// Loads are the amounts of arrivals, over the cluster's GPUs, at which the outcome also tells the state of
	// an episode with a Factor. They ascend.
	Loads      []float64 `json:"loads,omitempty"`
	Steady     *Steady   `json:"steady,omitempty"` // instead of a Factor
	Resampling           // for the times of the trace

	Nodes []openb.Node `json:"-"` // instead of NodesFile
	Pods  []openb.Pod  `json:"-"` // instead of PodsFile
}

func (c Config) validateOpenB(bad *exit.Faults) {
	o := c.OpenB
	bad.If(o.NodesFile == "" && len(o.Nodes) == 0, "openb.nodes: is missing; name the file")
	bad.If(o.PodsFile == "" && len(o.Pods) == 0, "openb.pods: is missing; name the file")
	bad.If(!(o.Factor >= 0 && o.Factor <= 100),
		"openb.factor: %v is outside 0 to 100; 1.3 requests 130%% of the GPUs, 0 follows the times of the trace", o.Factor)
	if o.Steady != nil {
		o.Steady.validate(bad)
		bad.If(o.Factor != 0 || o.Resampling != (Resampling{}) || c.Lose != 0,
			"openb.steady: draws its own arrivals, and no node is lost; leave out factor, resample, block and lose")
	}
	bad.If(o.Factor > 0 && o.Resampling != (Resampling{}),
		"openb: resample and block are for the times of the trace; with a factor the seed draws the order of the pods")
	o.validate("openb", true, bad)
	bad.If(!slices.IsSorted(o.Loads) || len(o.Loads) > 0 && (o.Factor == 0 || !(o.Loads[0] > 0)),
		"openb.loads: %v need a factor, must be over 0 and ascend", o.Loads)
	for _, x := range []struct {
		field string
		given bool
	}{
		{"nodes", c.Nodes != IntRange{}}, {"sizes", len(c.Sizes) > 0}, {"sizeKinds", c.SizeKinds != IntRange{}}, {"pools", len(c.Pools) > 0},
		{"zones", c.Zones != IntRange{}}, {"controlPlane", c.ControlPlane}, {"trace", c.Trace != nil},
	} {
		bad.If(x.given, "%s: the openb trace decides on nodes and pods; leave this out", x.field)
	}
	c.noWorkload("openb trace", bad)
}

// read returns a copy of o with the nodes and pods of its files.
func (o OpenB) read() (_ *OpenB, err error) {
	if len(o.Nodes) == 0 {
		if o.Nodes, err = openb.LoadNodes(o.NodesFile); err != nil {
			return nil, fmt.Errorf("openb.nodes: %w", err)
		}
	}
	if len(o.Pods) == 0 {
		if o.Pods, err = openb.LoadPods(o.PodsFile); err != nil {
			return nil, fmt.Errorf("openb.pods: %w", err)
		}
	}
	return &o, nil
}

// nodes returns the nodes without any pods.
func (o *OpenB) nodes(seed uint64) []*cluster.Node {
	out := each.Map(o.Nodes, openb.Node.Cluster)
	if !o.InOrder {
		stream(seed, streamCluster).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// arrivals returns the pods of an episode.
func (o *OpenB) arrivals(seed uint64, _ []*cluster.Node) (arrivalList, error) {
	if o.Steady != nil {
		return o.steadyArrivals(seed)
	}
	if o.Factor == 0 {
		t := openb.Trace(o.Pods)
		if o.on(true) {
			t = o.resample(stream(seed, streamWorkload), t, 0)
		}
		return fromTrace(t), nil
	}
	pods, err := openb.Inflate(o.Pods, o.Factor, openb.GPUMilli(o.Nodes), seed)
	if err != nil {
		return arrivalList{}, fmt.Errorf("openb: %w", err)
	}
	a := fromTrace(openb.InOrder(pods))
	a.lifetime = nil
	a.exact = false
	a.fill = len(a.pods) // no pod leaves, so all of it is the fill
	return a, nil
}

// bound returns the bound of the allocation at a load in the episode of a seed. The last pod of the arrivals takes the requests over the
// load.
func (o *OpenB) bound(load float64, seed uint64) float64 {
	arrivals, err := openb.Inflate(o.Pods, load, openb.GPUMilli(o.Nodes), seed)
	if err != nil {
		return 1 // the same arrivals have been drawn before
	}
	return min(openb.Bound(o.Nodes, arrivals), load+0.001)
}

// atTraceTimes reports whether pods come and go at the times of the trace.
func (o *OpenB) atTraceTimes() bool { return o.Factor == 0 && o.Steady == nil }

// fixed reports whether every seed has the same arrivals.
func (o *OpenB) fixed() bool { return o.atTraceTimes() && (!o.on(true) || len(o.Pods) < 2) }

// Typical returns the typical pods of the trace, or of the shapes by weight. It is nil if every
// deployment draws its own requests.
func (e *Env) Typical() *fragmentation.Typical { return e.typical }

func (o *OpenB) demand() (arriving, running []fragmentation.Demand) {
	for _, p := range o.Pods {
		arriving = append(arriving, demandOf(p.Shape(), 1))
		if o.Steady != nil {
			running = append(running, demandOf(p.Shape(), p.Lifetime()))
		}
	}
	return arriving, running
}

// Steady makes pods of an openb trace come and go in a cluster that has been in use for long; see
// openb.DrawSteady. Times are in seconds.
//
// The pods that run at first are placed one after another, the oldest first. One that fits nowhere then is
// away, so the queue starts empty. Pods that arrive later and fit nowhere wait, in
// kube-scheduler's order (Order), until they find a node.
type Steady struct {
	Load     float64 `json:"load"`     // offered load: GPUs that pods request on average, over the cluster's GPUs; over 0, at most 10
	WarmUp   float64 `json:"warmUp"`   // time before the figures begin; 0 or more
	Duration float64 `json:"duration"` // time for which they last; over 0
}

func (s *Steady) validate(bad *exit.Faults) {
	bad.If(!(s.Load > 0 && s.Load <= 10), "openb.steady.load: %v must be over 0 and at most 10; 0.95 requests 95%% of the GPUs", s.Load)
	bad.If(!(s.WarmUp >= 0 && s.Duration > 0) || math.IsInf(s.WarmUp+s.Duration, 0),
		"openb.steady: warmUp %v must be 0 or more and duration %v over 0 seconds, both finite", s.WarmUp, s.Duration)
}

// steadyArrivals returns the pods of an episode. Those that run at first are its fill.
func (o *OpenB) steadyArrivals(seed uint64) (arrivalList, error) {
	s, err := openb.DrawSteady(o.Pods, o.Steady.Load, openb.GPUMilli(o.Nodes), o.Steady.WarmUp+o.Steady.Duration, seed)
	if err != nil {
		return arrivalList{}, fmt.Errorf("openb.steady: %w", err)
	}
	a := fromTrace(openb.InOrder(o.Pods)) // each pod of the list once
	a.pods, a.at, a.lifetime = nil, nil, nil
	a.fill = len(s.Running)
	for i, p := range append(s.Running, s.Arriving...) {
		at := float64(i + 1)
		if i >= a.fill {
			at = float64(a.fill) + p.At
		}
		a.pods, a.at, a.lifetime = append(a.pods, int32(p.Pod)), append(a.at, at), append(a.lifetime, p.Lifetime)
	}
	a.end = float64(a.fill) + o.Steady.WarmUp + o.Steady.Duration
	return a, nil
}

// TypicalRunning returns the typical pods with each pod counted by its lifetime. In a cluster that has been in use for
// long, the running pods are a sample of them. It is nil without Steady.
func (e *Env) TypicalRunning() *fragmentation.Typical { return e.lasting }

// The classes of pods that SteadyOutcome counts: those of GPULoad, and pods that request no GPU.
const (
	classNoGPU = Classes

	SteadyClasses = Classes + 1 // their number
)

// SteadyOutcome describes an episode of Steady, from the end of the warm-up on.
type SteadyOutcome struct {
	Allocation float64 `json:"allocation"` // mean over time of the fraction of the GPUs that is allocated
	Waiting    float64 `json:"waiting"`    // mean number of waiting pods over time
	GPUHours   float64 `json:"gpuHours"`   // GPUs that waiting pods request, times the hours for which they waited
	Rejected   int     `json:"rejected"`   // pods that fitted nowhere at the start

	Classes [SteadyClasses]Waits `json:"classes"`
}

// Waits describes how long the pods of a class waited that arrived after the warm-up. Pods that still wait
// at the end count with their time so far.
type Waits struct {
	Pods       int     `json:"pods"`
	Waited     int     `json:"waited"`     // pods that did not get a node at once
	Mean       float64 `json:"mean"`       // seconds, pods that did not wait included
	P95        float64 `json:"p95"`        // seconds, 95th percentile of the same
	GPUHours   float64 `json:"gpuHours"`   // as in SteadyOutcome
	Unfinished int     `json:"unfinished"` // pods that wait at the end, whenever they arrived
}

// waits keeps the queue of an episode of Steady in kube-scheduler's order, and measures the waits.
type waits struct {
	quiet
	from  float64 // end of the warm-up
	order Order
	begun []float64 // by arrival: when it got its node; NaN without one
	waitTotals
}

// waitTotals are the present allocation and sums over time, in thousandths of a GPU.
type waitTotals struct {
	rejected               int // -1 during the fill
	allocated              int64
	time, gpuTime, podTime float64
}

func newWaits(e *Env) *waits {
	w := &waits{from: float64(e.arrivals.fill) + e.cfg.OpenB.Steady.WarmUp, begun: make([]float64, len(e.arrivals.pods)),
		waitTotals: waitTotals{rejected: -1}}
	for i := range w.begun {
		w.begun[i] = math.NaN()
	}
	w.order.Reset(len(e.arrivals.pods))
	return w
}

// pass rejects the pods that wait at the end of the fill.
func (w *waits) pass(e *Env, until float64) {
	if w.rejected < 0 {
		w.rejected, e.waiting = len(e.waiting), e.waiting[:0]
	}
	if until <= w.from {
		return
	}
	time := until - max(e.now, w.from)
	w.time += time
	w.gpuTime += time * float64(w.allocated)
	w.podTime += time * float64(len(e.waiting))
}

func (w *waits) placed(e *Env, pod, _ int32) {
	w.allocated += e.deployment(pod).pod.Requests.TotalGPUMilli()
	if math.IsNaN(w.begun[pod]) {
		w.begun[pod] = e.now
	}
}

// left puts the waiting pods into the order of their next try.
func (w *waits) left(e *Env, pod, _ int32) {
	w.allocated -= e.deployment(pod).pod.Requests.TotalGPUMilli()
	w.order.Sort(e.waiting, e.now)
	e.at = 0
}

func (w *waits) refused(e *Env, pod int32) { w.order.Fail(pod, e.now) }

func (w *waits) copyFor(_ *Env, old []part) part {
	c := reused[waits](old)
	c.from, c.waitTotals = w.from, w.waitTotals
	c.begun = append(c.begun[:0], w.begun...)
	w.order.CopyTo(&c.order)
	return c
}

func (w *waits) report(e *Env, out *Outcome) {
	o := &SteadyOutcome{Rejected: max(w.rejected, 0)}
	out.Steady = o
	if w.time > 0 {
		o.Allocation = w.gpuTime / w.time / float64(max(e.gpuCapacity(), 1))
		o.Waiting = w.podTime / w.time
	}
	var all []wait
	for i := e.arrivals.fill; i < e.clock; i++ {
		x := wait{Pod: &e.deployment(int32(i)).pod, Arrived: e.arrivals.at[i], Until: w.begun[i]}
		if math.IsNaN(x.Until) {
			x.Until, x.Waiting = e.now, true
		}
		x.Waited = x.Waiting || x.Until > x.Arrived
		all = append(all, x)
	}
	o.addWaits(w.from, all)
}

// wait is the time of a pod in the queue, in seconds.
type wait struct {
	Pod            *cluster.Pod
	Arrived, Until float64 // Until is when it got its node, or now
	Waited         bool    // it did not get a node at once
	Waiting        bool    // it has no node yet
}

// addWaits counts the pods that arrived, from the end of the warm-up on, into GPUHours and Classes.
func (o *SteadyOutcome) addWaits(from float64, waits []wait) {
	var times [SteadyClasses][]float64
	for _, x := range waits {
		hours := max(x.Until-max(x.Arrived, from), 0) / 3600 * float64(x.Pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
		o.GPUHours += hours
		for _, c := range classesOf(x.Pod) {
			w := &o.Classes[c]
			w.GPUHours += hours
			if x.Waiting {
				w.Unfinished++
			}
			if x.Arrived >= from {
				if x.Waited {
					w.Waited++
				}
				times[c] = append(times[c], x.Until-x.Arrived)
			}
		}
	}
	for c, of := range times {
		if len(of) == 0 {
			continue
		}
		slices.Sort(of)
		w := &o.Classes[c]
		w.Pods, w.Mean, w.P95 = len(of), stat.Mean(of, nil), stat.Quantile(0.95, stat.Empirical, of, nil)
	}
}

// classesOf returns the classes of a pod.
func classesOf(p *cluster.Pod) []int {
	c := classOf(p.Requests)
	switch {
	case c < 0:
		return []int{classNoGPU}
	case len(p.GPUModels) > 0:
		return []int{c, classNamed}
	}
	return []int{c}
}
