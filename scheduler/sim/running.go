package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
)

// Lifetimes configures how long pods run. Lifetimes count from the end of the fill; the pods of the
// fill have run for a while by then, so that with Mean 1 the load stays about constant.
type Lifetimes struct {
	Distribution string  `json:"distribution"`    // none, exponential, pareto or lognormal; empty: exponential
	Mean         float64 `json:"mean,omitempty"`  // in units of the time in which as many pods arrive as the fill had; 0 means 1
	Alpha        float64 `json:"alpha,omitempty"` // of pareto, over 1: the smaller, the heavier the tail; 0 means 1.5
	Sigma        float64 `json:"sigma,omitempty"` // of lognormal: standard deviation of the logarithm; 0 means 1.5
}

// Names of distributions.
const (
	noEnd          = "none" // no pod leaves
	exponentialEnd = "exponential"
	paretoEnd      = "pareto"    // heavy-tailed; no variance for Alpha up to 2
	logNormalEnd   = "lognormal" // heavy-tailed, with all moments
)

func (l Lifetimes) validate(bad *exit.Faults) {
	switch l.Distribution {
	case "", noEnd, exponentialEnd, paretoEnd, logNormalEnd:
	default:
		bad.Add("lifetimes.distribution: %q is not %s, %s, %s or %s", l.Distribution, noEnd, exponentialEnd, paretoEnd, logNormalEnd)
	}
	bad.If(!(l.Mean >= 0) || math.IsInf(l.Mean, 0) || l.Mean != 0 && l.Distribution == noEnd,
		"lifetimes.mean: %v must be a finite number over 0, and left out for %s", l.Mean, noEnd)
	bad.If(l.Alpha != 0 && (l.Distribution != paretoEnd || !(l.Alpha > 1) || math.IsInf(l.Alpha, 0)),
		"lifetimes.alpha: %v must be over 1, and is for %s only", l.Alpha, paretoEnd)
	bad.If(l.Sigma != 0 && (l.Distribution != logNormalEnd || !(l.Sigma > 0 && l.Sigma <= 10)),
		"lifetimes.sigma: %v must be over 0 and at most 10, and is for %s only", l.Sigma, logNormalEnd)
}

// draw draws a lifetime with l.Mean times the given mean. For a pod that runs already it draws the
// residual lifetime.
//
// In a system that has run forever, a residual lifetime is a uniform share of a lifetime drawn
// with a probability proportional to its length (Cox 1962, Renewal Theory, §5.3). Drawing so
// subtracts 1 from the α of a Pareto distribution and adds σ² to the logarithm's mean of a
// lognormal one. The exponential distribution has no memory.
func (l Lifetimes) draw(rng *rand.Rand, mean float64, runs bool) float64 {
	mean *= cmp.Or(l.Mean, 1)
	share := 1.0
	if runs && (l.Distribution == paretoEnd || l.Distribution == logNormalEnd) {
		share = rng.Float64()
	}
	switch l.Distribution {
	case paretoEnd:
		alpha := cmp.Or(l.Alpha, 1.5)
		least := mean * (alpha - 1) / alpha
		if runs {
			alpha--
		}
		return share * least * math.Exp(rng.ExpFloat64()/alpha)
	case logNormalEnd:
		sigma := cmp.Or(l.Sigma, 1.5)
		mu := math.Log(mean) - sigma*sigma/2
		if runs {
			mu += sigma * sigma
		}
		return share * math.Exp(mu+sigma*rng.NormFloat64())
	}
	return rng.ExpFloat64() * mean
}

// departure is a running pod that leaves at a time.
type departure struct {
	at  float64
	pod int32 // its arrival
}

func (d departure) before(o departure) bool {
	return d.at < o.at || d.at == o.at && d.pod < o.pod
}

// departures is a binary heap with the next pod to leave on top. Unlike container/heap it does not
// box its values, which would allocate memory at every step.
type departures []departure

func (h *departures) push(d departure) {
	*h = append(*h, d)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *departures) pop() departure {
	q := *h
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// leave ends a running pod, or its time on a node.
func (e *Env) leave(pod int32) {
	row := e.on[pod]
	e.snapshot.Nodes[row].Remove(e.deployment(pod).pod.Requests, e.devices[pod])
	e.changed(row)
	e.on[pod] = -1
	for _, p := range e.parts {
		p.left(e, pod, row)
	}
	e.freed = append(e.freed, row)
}

// depart removes the pods whose time has come.
func (e *Env) depart() {
	e.freed = e.freed[:0]
	for len(e.running) > 0 && e.running[0].at <= e.now {
		e.leave(e.running.pop().pod)
	}
	e.again()
}

// again updates the cost after pods have left nodes. Waiting pods that now fit are tried again.
func (e *Env) again() {
	if len(e.freed) == 0 {
		return
	}
	e.price()
	for shape, full := range e.full {
		if full && e.fitsFreed(int32(shape)) {
			e.full[shape], e.at = false, 0
		}
	}
}

// fitsFreed reports whether pods of a shape fit on a node that a pod has just left.
func (e *Env) fitsFreed(shape int32) bool {
	pod := &e.arrivals.deployments[e.arrivals.shapes[shape]].pod
	return slices.ContainsFunc(e.freed, func(row int32) bool { return e.snapshot.Nodes[row].Fit(pod) == cluster.Fits })
}

// MovesOutcome describes the moves of an episode of Every, of Steady from the end of the warm-up on.
type MovesOutcome struct {
	Moved int `json:"moved"` // pods, each as often as it moved
	// Work is the time for which the moved pods had run since they were placed or moved before, times the GPUs that they request, or the CPUs
	// on a cluster without GPUs. It is the work that is lost where a pod that moves begins anew. The simulator assumes that
	// no work is lost: a moved pod leaves when it would have left anyway.
	Work float64 `json:"work"`
}

// moves calls a function at intervals, and counts what it moves.
type moves struct {
	quiet
	every, next float64
	do          func()    // nil in a copy
	from        float64   // when counting begins
	gpus        bool      // work is measured in GPUs
	begun       []float64 // by arrival: when its pod was placed or moved last; negative before
	count       MovesOutcome
}

// Every calls do in this episode at each interval after the fill, while no pod is pending. It is called after Reset, before the first
// step. do may call Move, and nothing else that changes the environment. Copies of the environment do not call it. Every returns an
// error if no time passes after the fill.
func (e *Env) Every(interval float64, do func()) error {
	if e.arrivals.fill == len(e.arrivals.pods) && e.arrivals.end <= float64(e.arrivals.fill) {
		return errors.New("no pod leaves and none comes after the first ones, so there is no time at which pods could move")
	}
	m := &moves{every: interval, do: do, from: float64(e.arrivals.fill), gpus: e.gpuCapacity() > 0,
		begun: slices.Repeat([]float64{-1}, len(e.arrivals.pods))}
	m.next = m.from + interval
	if o := e.cfg.OpenB; o != nil && o.Steady != nil {
		m.from += o.Steady.WarmUp
	}
	e.parts = append(e.parts, m)
	e.due = min(e.due, m.next)
	return nil
}

func (m *moves) track(e *Env) {
	for pod, row := range e.on {
		if row < 0 {
			m.begun[pod] = -1
		}
	}
}

func (m *moves) placed(e *Env, pod, _ int32) {
	if m.begun[pod] < 0 {
		m.begun[pod] = max(e.now, float64(e.arrivals.fill))
	}
}

func (m *moves) due(e *Env) float64 {
	if m.do == nil {
		return math.Inf(1)
	}
	if e.now >= m.next {
		m.next += m.every
		m.do()
	}
	return m.next
}

func (m *moves) copyFor(_ *Env, old []part) part {
	c := reused[moves](old)
	begun := append(c.begun[:0], m.begun...)
	*c = *m
	c.do, c.begun = nil, begun
	return c
}

func (m *moves) report(_ *Env, o *Outcome) {
	o.Moves = new(m.count)
}

// moved counts moves.
func (m *moves) moved(e *Env, all []cluster.Move) {
	for _, x := range all {
		r := e.deployment(int32(x.Pod)).pod.Requests
		size := r.MilliCPU
		if m.gpus {
			size = r.TotalGPUMilli()
		}
		if e.now >= m.from {
			m.count.Moved++
			m.count.Work += (e.now - m.begun[x.Pod]) * float64(size) / 1000
		}
		m.begun[x.Pod] = e.now
	}
}

// Wanted returns the typical pods among those that arrive and those that wait now. Each pod counts by the GPUs that it requests, and all
// that wait as much as all that arrive. It is nil without GPU pods.
func (e *Env) Wanted() *fragmentation.Typical {
	var waiting []fragmentation.Demand
	for _, pod := range e.waiting {
		p := &e.deployment(pod).pod
		waiting = append(waiting, fragmentation.Demand{Requests: p.Requests, Models: p.GPUModels, Tolerations: p.Tolerations, Count: 1})
	}
	var all []fragmentation.Demand
	for _, demand := range [][]fragmentation.Demand{e.demand, waiting} {
		sum := 0.0
		for _, d := range demand {
			sum += d.Count * float64(d.Requests.TotalGPUMilli())
		}
		for _, d := range demand {
			if d.Count *= float64(d.Requests.TotalGPUMilli()); d.Count > 0 {
				d.Count /= sum
				all = append(all, d)
			}
		}
	}
	return fragmentation.NewTypical(all)
}

// Running calls yield with each pod that may move: it runs, and has no work that would begin anew. The move is that to where it is; its
// Pod is the index in Plan.
func (e *Env) Running(yield func(at cluster.Move, pod *cluster.Pod) bool) {
	for i, row := range e.on {
		if d := e.deployment(int32(i)); row >= 0 && !d.works() && !yield(e.where(i), &d.pod) {
			return
		}
	}
}

// where returns the move to where a running pod is.
func (e *Env) where(pod int) cluster.Move {
	m := cluster.Move{Pod: pod, Row: e.on[pod], Devices: e.devices[pod]}
	for _, p := range e.parts {
		if s, is := p.(*partitions); is {
			m.Start = int(s.starts[pod])
		}
	}
	return m
}

// Move moves pods together: all leave their nodes, and then each is placed. If one does not run, or has no room on its devices, nothing
// moves, and Move returns an error. Only the function of Every may call it. The pods leave the
// cluster when they would have left without it.
func (e *Env) Move(together ...cluster.Move) error {
	back := make([]cluster.Move, len(together))
	for i, m := range together {
		if e.on[m.Pod] < 0 || slices.ContainsFunc(together[:i], func(o cluster.Move) bool { return o.Pod == m.Pod }) {
			return fmt.Errorf("pod %d does not run, or would move twice", m.Pod)
		}
		back[i] = e.where(m.Pod)
	}
	pending := e.pending
	e.freed = e.freed[:0]
	for _, m := range together {
		e.leave(int32(m.Pod))
	}
	err := e.put(together)
	if err != nil {
		if lost := e.put(back); lost != nil {
			panic(lost) // they fitted there
		}
	}
	for _, p := range e.parts {
		if count, is := p.(*moves); is && err == nil {
			count.moved(e, together)
		}
	}
	e.pending, e.seen = pending, &e.snapshot
	e.again()
	return err
}

// put places pods that have left, or none.
func (e *Env) put(together []cluster.Move) error {
	for i, m := range together {
		e.pending, e.seen = int32(m.Pod), &e.snapshot
		if why := e.misfit(m); why != cluster.Fits {
			for _, placed := range together[:i] {
				e.leave(int32(placed.Pod))
			}
			return fmt.Errorf("pod %d cannot move to the devices %b of %s: %s", m.Pod, m.Devices, e.snapshot.Nodes[m.Row].Name, why)
		}
		for _, p := range e.parts {
			p.pends(e)
		}
		e.place(m.Row, m.Devices, m.Start)
	}
	return nil
}

// misfit returns why the pending pod has no room at the place of a move.
func (e *Env) misfit(m cluster.Move) cluster.Reason {
	n, pod := e.snapshot.Nodes[m.Row], e.Pending()
	if why := n.Fit(pod); why != cluster.Fits {
		return why
	}
	if n.HasDevices() && !n.FitsOn(pod.Requests, m.Devices) || !n.HasDevices() && m.Devices != 0 {
		return cluster.NoDevice
	}
	p := pod.Partition
	if p == mig.None || n.Slices == nil {
		return cluster.Fits
	}
	if used := n.Slices[bits.TrailingZeros64(uint64(m.Devices))]; !slices.Contains(p.Starts(), m.Start) || used&p.On(m.Start) != 0 {
		return cluster.NoDevice
	}
	return cluster.Fits
}

const (
	// evaluationEnd is the end of the evaluation's seeds: the first seed that it may not use.
	evaluationEnd = 1 << 32
	// maxTraining is the largest --seed of a training run. It keeps the seeds of the run's episodes below 2⁶².
	maxTraining = 1<<30 - 1
)

// TrainingEpisode returns the seed of the n-th episode of a training run.
func TrainingEpisode(seed, n uint64) uint64 { return seed*evaluationEnd + n }

// CheckTrainingSeed returns an error unless seed may be the --seed of training or tuning.
func CheckTrainingSeed(seed uint64) error {
	switch {
	case seed == 0:
		return fmt.Errorf("seed is 0: choose 1 to %d; the training episodes of seed 0 are episodes of the evaluation", maxTraining)
	case seed > maxTraining:
		return fmt.Errorf("seed is %d: choose 1 to %d; larger seeds have other uses",
			seed, maxTraining)
	}
	return nil
}

// CheckEvaluationSeeds returns an error unless the n seeds from first on may be an evaluation's.
func CheckEvaluationSeeds(first uint64, n int) error {
	if last := first + uint64(max(n, 1)) - 1; first >= evaluationEnd || last >= evaluationEnd {
		return fmt.Errorf("the evaluation's last seed is %d: choose seeds below %d; training uses the others", last, uint64(evaluationEnd))
	}
	return nil
}
