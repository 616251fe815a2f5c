package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// Trace reads from a file which pods arrive when and how long they run.
type Trace struct {
	File string `json:"file"` // a CSV in any format of package trace, or the folder of a record
	// Pods is the least number of pods in an episode. An episode is a part of the trace that
	// begins where the seed decides, or with Resampling is put together from several parts. 0 means as
	// many pods as the trace has.
	Pods int `json:"pods,omitempty"`
	// From and To take only the arrivals from one time on and before another, in seconds of the trace; To is 0 for all.
	// The episode begins at From. The pods that ran then arrive first, at once, in every episode.
	From float64 `json:"from,omitempty"`
	To   float64 `json:"to,omitempty"`
	Resampling
}

// Resampling says whether each seed has a workload of its own, drawn from one trace by the circular
// block bootstrap (Politis and Romano 1992): blocks of consecutive arrivals from random places, one after
// another. The end of the trace is followed by its beginning, so all arrivals are equally likely. Each
// arrival keeps its requests, its lifetime and the time since the arrival before it.
type Resampling struct {
	// Resample turns the drawing of blocks on or off. Default: on, except with pods, whose episodes differ already.
	Resample *bool `json:"resample,omitempty"`
	// Block is the number of arrivals in a block. Default: the square root of the number in the trace,
	// rounded up. Dependence between arrivals that are further apart than a block is lost.
	Block int `json:"block,omitempty"`
	// BlockSeconds makes blocks of time instead: those arrivals between a multiple of so many seconds of the trace and the next
	// one, drawn with equal probability, each at its time within the block. With 86,400, whole days are drawn, so that what
	// depends on the hour stays. The part of a block at the trace's end is one too.
	BlockSeconds float64 `json:"blockSeconds,omitempty"`
}

// validate checks the fields of the named source. standard is the default of Resample.
func (r Resampling) validate(source string, standard bool, bad *exit.Faults) {
	switch {
	case r.Block < 0:
		bad.Add("%s.block: %d must be 0 or more", source, r.Block)
	case !(r.BlockSeconds >= 0) || math.IsInf(r.BlockSeconds, 0):
		bad.Add("%s.blockSeconds: %v must be 0 or more", source, r.BlockSeconds)
	case r.Block > 0 && r.BlockSeconds > 0:
		bad.Add("%s.block: excludes blockSeconds; leave one of them out", source)
	case (r.Block > 0 || r.BlockSeconds > 0) && !r.on(standard):
		bad.Add("%s.block: is for resampled episodes; leave it out, or set resample: true", source)
	}
}

// Resampled returns the configuration with resampling turned on or off. ok is false if it has no trace
// that is played at its times.
func (c Config) Resampled(on bool) (out Config, ok bool) {
	set := func(r *Resampling) {
		if r.Resample = &on; !on {
			r.Block, r.BlockSeconds = 0, 0
		}
	}
	switch {
	case c.Trace != nil:
		c.Trace = new(*c.Trace)
		set(&c.Trace.Resampling)
	case c.OpenB != nil && c.OpenB.atTraceTimes():
		c.OpenB = new(*c.OpenB)
		set(&c.OpenB.Resampling)
	default:
		return c, false
	}
	return c, true
}

func (r Resampling) on(standard bool) bool {
	if r.Resample == nil {
		return standard
	}
	return *r.Resample
}

func (c Config) validateTrace(bad *exit.Faults) {
	bad.If(c.Trace.File == "", "trace.file: is missing")
	bad.If(c.Trace.Pods < 0, "trace.pods: %d must be 0 or more", c.Trace.Pods)
	bad.If(!(c.Trace.From >= 0) || math.IsInf(c.Trace.From, 0), "trace.from: %v must be 0 or more", c.Trace.From)
	if to := c.Trace.To; !(to >= 0) || math.IsInf(to, 0) || to > 0 && to <= c.Trace.From {
		bad.Add("trace.to: %v must be more than from, %v, or 0 for all", to, c.Trace.From)
	}
	c.Trace.validate("trace", c.Trace.Pods == 0, bad)
	c.noWorkload("trace", bad)
}

// tracePods draws nodes, and takes pods from a trace.
type tracePods struct {
	Config
	all workload.Trace
}

// readTrace reads the pods of Config.Trace.
func (c Config) readTrace() (*tracePods, error) {
	all, err := c.Trace.read()
	if err == nil && c.Usage == nil && slices.ContainsFunc(all, func(a workload.Arrival) bool { return a.Deployment.Shape.Usage != nil }) {
		err = fmt.Errorf("usage: is missing, but %s has a column usage; give usage: {}", c.Trace.File)
	}
	return &tracePods{c, all}, err
}

func (p *tracePods) nodes(seed uint64) []*cluster.Node { return p.drawNodes(seed) }

func (p *tracePods) arrivals(seed uint64, _ []*cluster.Node) (arrivalList, error) {
	return fromTrace(p.Trace.arrivals(stream(seed, streamWorkload), p.all)), nil
}

func (p *tracePods) demand() (arriving, running []fragmentation.Demand) {
	for _, a := range p.all {
		arriving = append(arriving, demandOf(a.Deployment.Shape, float64(a.Deployment.Replicas)))
	}
	return arriving, nil
}

func (p *tracePods) fixed() bool { return p.Trace.fixed(p.all) }

// resamples reports whether episodes are put together from blocks of the trace.
func (t Trace) resamples() bool { return t.on(t.Pods == 0) }

// arrivals returns the arrivals of an episode, drawn from the result of read.
func (t Trace) arrivals(rng *rand.Rand, all workload.Trace) workload.Trace {
	ran, all := split(all)
	var part workload.Trace
	if t.resamples() {
		part = t.resample(rng, all, t.Pods)
	} else {
		part = window(rng, all, t.Pods)
	}
	if len(ran) == 0 {
		return part
	}
	out := slices.Concat(ran, part)
	for i := range ran {
		out[i].At = part[0].At - 1
	}
	return out
}

// split separates the pods that ran at From, whose arrivals are before 0, from the others.
func split(all workload.Trace) (ran, others workload.Trace) {
	i := sort.Search(len(all), func(i int) bool { return all[i].At >= 0 })
	return all[:i], all[i:]
}

// fixed reports whether every seed has the same arrivals.
func (t Trace) fixed(all workload.Trace) bool {
	_, all = split(all)
	if t.resamples() {
		return len(all) < 2 || t.BlockSeconds > 0 && t.blocks(all) < 2
	}
	return t.Pods == 0 || lastStart(all, t.Pods) == 0
}

// noWorkload refuses the fields about pods, because the named source decides on the pods.
func (c Config) noWorkload(source string, bad *exit.Faults) {
	for _, x := range []struct {
		field string
		given bool
	}{
		{"shapes", len(c.Shapes) > 0}, {"shapeKinds", c.ShapeKinds != IntRange{}}, {"requests", c.Requests != nil},
		{"replicas", c.Replicas != IntRange{}}, {"load", c.Load != FloatRange{}}, {"initial", c.Initial != 0},
		{"turnover", c.Turnover != 0}, {"arrivals", c.Arrivals != Arrivals{}}, {"lifetimes", c.Lifetimes != Lifetimes{}},
	} {
		bad.If(x.given, "%s: the %s decides on the pods; leave this out", x.field, source)
	}
}

func (t Trace) read() (workload.Trace, error) {
	read, err := trace.Load(t.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	out, err := t.part(read.Arrivals)
	if err != nil {
		return nil, err
	}
	_, others := split(out)
	if pods := others.Pods(); pods < t.Pods {
		return nil, fmt.Errorf("trace: %s has only %d pods, but an episode is to have %d; lower trace.pods", t.File, pods, t.Pods)
	}
	return out, nil
}

// part returns the arrivals from From on and before To, as if the trace began at From. The pods that ran then come first, at
// -1, with the rest of their lifetimes.
func (t Trace) part(all workload.Trace) (workload.Trace, error) {
	if t.From == 0 && t.To == 0 {
		return all, nil
	}
	var ran, out workload.Trace
	for _, a := range all {
		switch left := a.At + a.Lifetime - t.From; {
		case a.At < t.From && left > 0:
			a.At, a.Lifetime = -1, left
			ran = append(ran, a)
		case a.At >= t.From && (a.At < t.To || t.To == 0):
			a.At -= t.From
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("trace: no pod of %s arrives between %v and %v seconds; its last one arrives at %v", t.File, t.From, t.To,
			all[len(all)-1].At)
	}
	return append(ran, out...), nil
}

// window draws a part of t with at least the given number of pods; 0 means all of t.
func window(rng *rand.Rand, t workload.Trace, pods int) workload.Trace {
	if pods == 0 {
		return t
	}
	from := rng.IntN(lastStart(t, pods) + 1)
	to := from
	for n := 0; n < pods; to++ {
		n += t[to].Deployment.Replicas
	}
	return t[from:to]
}

// lastStart returns the last arrival with at least the given number of pods from it on.
func lastStart(t workload.Trace, pods int) int {
	starts := len(t)
	for left := 0; left < pods; {
		starts--
		left += t[starts].Deployment.Replicas
	}
	return starts
}

// resample draws a trace with at least the given number of pods; 0 means as many arrivals as t has.
func (r Resampling) resample(rng *rand.Rand, t workload.Trace, pods int) workload.Trace {
	if r.BlockSeconds > 0 {
		return r.resampleTime(rng, t, pods)
	}
	block := cmp.Or(min(r.Block, len(t)), int(math.Ceil(math.Sqrt(float64(len(t))))))
	var out workload.Trace
	names, got, at := newCopies(t), 0, 0.0
	for {
		from := rng.IntN(len(t))
		for i := range block {
			if len(out) > 0 && (got >= pods && pods > 0 || len(out) == len(t) && pods == 0) {
				return out
			}
			row := (from + i) % len(t)
			if len(out) > 0 {
				at += gap(t, row)
			}
			a := t[row]
			a.At, a.Deployment.Name = at, names.of(row)
			out = append(out, a)
			got += a.Deployment.Replicas
		}
	}
}

// resampleTime draws blocks of time until there are at least the given number of pods; 0 means as many blocks as t has.
func (r Resampling) resampleTime(rng *rand.Rand, t workload.Trace, pods int) workload.Trace {
	var out workload.Trace
	names, blocks := newCopies(t), r.blocks(t)
	for n, got := 0, 0; pods > 0 && got < pods || pods == 0 && (n < blocks || got == 0); n++ {
		begin := float64(rng.IntN(blocks)) * r.BlockSeconds
		row := sort.Search(len(t), func(i int) bool { return t[i].At >= begin })
		for ; row < len(t) && t[row].At < begin+r.BlockSeconds; row++ {
			a := t[row]
			a.At, a.Deployment.Name = float64(n)*r.BlockSeconds+a.At-begin, names.of(row)
			out = append(out, a)
			got += a.Deployment.Replicas
		}
	}
	return out
}

// blocks returns the number of blocks of time of a trace.
func (r Resampling) blocks(t workload.Trace) int { return int(t[len(t)-1].At/r.BlockSeconds) + 1 }

// gap returns the time between arrival i and the one before it. Nothing is before the first one; it gets
// the mean.
func gap(t workload.Trace, i int) float64 {
	if i > 0 {
		return t[i].At - t[i-1].At
	}
	return t[len(t)-1].At / float64(max(len(t)-1, 1))
}

// copies names the Deployments of arrivals that are drawn repeatedly. Arrivals that share a name in the
// trace share one in their second copies too, and so on.
type copies struct {
	trace workload.Trace
	drawn []int // by arrival: how often
	taken map[string]bool
	names map[copyOf]string
}

type copyOf struct {
	name   string
	number int
}

func newCopies(t workload.Trace) *copies {
	c := &copies{trace: t, drawn: make([]int, len(t)), taken: map[string]bool{}, names: map[copyOf]string{}}
	for _, a := range t {
		c.taken[a.Deployment.Name] = true
	}
	return c
}

func (c *copies) of(row int) string {
	name := c.trace[row].Deployment.Name
	this := copyOf{name, c.drawn[row]}
	c.drawn[row]++
	if this.number == 0 {
		return name
	}
	if _, named := c.names[this]; !named {
		free := workload.FreeName(name, c.taken)
		c.taken[free] = true
		c.names[this] = free
	}
	return c.names[this]
}
