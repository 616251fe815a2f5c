package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dustin/go-humanize/english"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
)

// Arrivals configures when pods arrive after the fill. Its unit of time is the mean time between
// two pods, so every process brings one pod per unit on average.
type Arrivals struct {
	Process string `json:"process"` // steady (the default), poisson, bursts, diurnal or at-once
	// Size is the least number of pods in a burst, as a fraction of the pods of the fill; 0 means
	// 0.1. It applies only to the process bursts.
	Size float64 `json:"size,omitempty"`
	// Period is the length of a day, in units of the time in which as many pods arrive as the fill
	// had; 0 means 1. Amplitude is how far the rate rises and falls, as a fraction of its mean; 0
	// means 0.5. Both apply only to the process diurnal.
	Period    float64 `json:"period,omitempty"`
	Amplitude float64 `json:"amplitude,omitempty"`
}

// process draws the times at which pods arrive after the fill. To add one, implement it in a new
// file and add it to processes.
type process interface {
	// name is the process's name in configuration files.
	name() string
	// times returns when each of the deployments arrives, ascending and counted from the end of
	// the fill. All pods of a deployment arrive together. On average one pod must arrive per unit
	// of time.
	times(rng *rand.Rand, a Arrivals, d furtherDeployments) []float64
}

// processes lists the arrival processes besides steady, in the order of messages.
var processes = []process{poissonProcess{}, burstProcess{}, diurnalProcess{}, atOnceProcess{}}

// furtherDeployments describes the deployments that arrive after the first fill.
type furtherDeployments struct {
	replicas []int // pods of each deployment, in the order of arrival
	begins   []int // the rows at which the second fill, the third and so on begin; ascending
	fill     int   // pods of the first fill
}

// steady is the process in which pods arrive one at a time, a unit of time apart. Unlike all others
// it separates the pods of a deployment.
const steady = "steady"

func (a Arrivals) steady() bool { return a.Process == "" || a.Process == steady }

// process returns the process of a's name; nil for steady and for unknown names.
func (a Arrivals) process() process {
	for _, p := range processes {
		if p.name() == a.Process {
			return p
		}
	}
	return nil
}

func (a Arrivals) validate(bad *exit.Faults) {
	if !a.steady() && a.process() == nil {
		names := []string{steady}
		names = append(names, each.Map(processes, func(p process) string { return p.name() })...)
		bad.Add("arrivals.process: %q is not %s", a.Process, english.WordSeries(names, "or"))
	}
	bad.If(a.Process != bursts && a.Size != 0, "arrivals.size applies only to the process %s", bursts)
	bad.If(a.Process != diurnal && (a.Period != 0 || a.Amplitude != 0),
		"arrivals.period and arrivals.amplitude apply only to the process %s", diurnal)
	bad.If(!(a.Size >= 0 && a.Size <= 1), "arrivals.size: %v is not between 0 and 1", a.Size)
	bad.If(!(a.Period >= 0) || math.IsInf(a.Period, 0), "arrivals.period: %v must be a finite number, 0 or more", a.Period)
	bad.If(!(a.Amplitude >= 0 && a.Amplitude <= 1), "arrivals.amplitude: %v is not between 0 and 1", a.Amplitude)
}

// together numbers the groups of deployments that arrive at the same time. begins reports whether
// deployment i begins a new group when its group so far has the given number of pods.
func (d furtherDeployments) together(begins func(i, pods int) bool) (group []int) {
	group = make([]int, len(d.replicas))
	current, pods := 0, 0
	for i, n := range d.replicas {
		if i > 0 && begins(i, pods) {
			current++
			pods = 0
		}
		group[i] = current
		pods += n
	}
	return group
}

// apart returns the time of each deployment. The gap before each group is what gap returns for
// the mean gap.
func (d furtherDeployments) apart(group []int, gap func(mean float64) float64) []float64 {
	out := make([]float64, len(group))
	if len(group) == 0 {
		return out
	}
	pods := each.Sum(d.replicas, func(n int) int { return n })
	mean := float64(pods) / float64(group[len(group)-1]+1)
	var t float64
	for i := range group {
		if i == 0 || group[i] != group[i-1] {
			t += gap(mean)
		}
		out[i] = t
	}
	return out
}

// isBegin reports whether a further fill begins with deployment i.
func (d furtherDeployments) isBegin(i int) bool {
	_, found := slices.BinarySearch(d.begins, i)
	return found
}

// Names of processes.
const (
	poisson = "poisson"
	bursts  = "bursts"
	diurnal = "diurnal"
	atOnce  = "at-once"
)

// poissonProcess brings one deployment at a time, at random.
type poissonProcess struct{}

func (poissonProcess) name() string { return poisson }

func (poissonProcess) times(rng *rand.Rand, _ Arrivals, d furtherDeployments) []float64 {
	return d.apart(d.together(func(int, int) bool { return true }), exponential(rng))
}

// exponential returns a function that draws gaps of a given mean from an exponential distribution.
func exponential(rng *rand.Rand) func(mean float64) float64 {
	return func(mean float64) float64 { return rng.ExpFloat64() * mean }
}

// burstProcess brings several deployments together, the bursts at random.
type burstProcess struct{}

func (burstProcess) name() string { return bursts }

func (burstProcess) times(rng *rand.Rand, a Arrivals, d furtherDeployments) []float64 {
	least := cmp.Or(a.Size, 0.1) * float64(d.fill)
	return d.apart(d.together(func(_, pods int) bool { return float64(pods) >= least }), exponential(rng))
}

// diurnalProcess is a Poisson process whose rate rises and falls as a sine.
type diurnalProcess struct{}

func (diurnalProcess) name() string { return diurnal }

func (diurnalProcess) times(rng *rand.Rand, a Arrivals, d furtherDeployments) []float64 {
	out := poissonProcess{}.times(rng, a, d)
	period, amplitude := cmp.Or(a.Period, 1)*float64(d.fill), cmp.Or(a.Amplitude, 0.5)
	for i, t := range out {
		out[i] = warp(t, period, amplitude)
	}
	return out
}

// warp turns a time of a process with a constant rate into one of a diurnal process: the t' at
// which ∫₀ᵗ' 1 + A·sin(2πs/P) ds = t (inversion; Çinlar 1975, Introduction to Stochastic Processes).
func warp(t, period, amplitude float64) float64 {
	swing := amplitude * period / (2 * math.Pi)
	low, high := t-2*swing, t // the integral is s + swing·(1 - cos) ≥ s
	for range 60 {
		mid := (low + high) / 2
		if mid+swing*(1-math.Cos(2*math.Pi*mid/period)) < t {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// atOnceProcess brings all pods of a further fill together. The fills are equally far apart.
type atOnceProcess struct{}

func (atOnceProcess) name() string { return atOnce }

func (atOnceProcess) times(_ *rand.Rand, _ Arrivals, d furtherDeployments) []float64 {
	group := d.together(func(i, _ int) bool { return d.isBegin(i) })
	return d.apart(group, func(mean float64) float64 { return mean })
}

// part is one thing that an episode plays or measures beside the nodes' requests: usage, traffic, preferences, waits, means over time.
// Env tells every part of each event. Rows are those of the snapshot. To add a part, implement it in a file of its own, embed quiet for
// the events that do not matter to it, and add it to newParts. Its settings are a field of Config, with rules in Validate; what it draws, a
// stream in draw.go; what it measures, a field of Outcome and a line in eval.Metrics. What cannot play it refuses it, as
// optimum.Of does.
type part interface {
	// track begins an episode, or goes on with another list of nodes. Env.on has the row of each running pod.
	track(e *Env)
	// arrives is called before a pod arrives. The pods before it are placed or wait.
	arrives(e *Env, pod int32)
	// pends is called when a pod that fits somewhere becomes pending.
	pends(e *Env)
	// refused is called when a waiting pod was tried and fits nowhere.
	refused(e *Env, pod int32)
	// placed is called when a pod runs on the node of a row, before time passes. A pod that moves leaves, pends and is placed again.
	placed(e *Env, pod, row int32)
	// left is called when a pod has left the node of a row.
	left(e *Env, pod, row int32)
	// pass is called before time passes, from Env.now on, in which nothing changes. It is not called during the fill.
	pass(e *Env, until float64)
	// due is called at Env.due, for which any part may have asked. It returns when the part is due next; +Inf: never.
	due(e *Env) float64
	// copyFor returns a copy for e, which is a copy of the environment. It may use the memory of the older copies.
	copyFor(e *Env, old []part) part
	// report writes what the part has measured into the outcome.
	report(e *Env, o *Outcome)
}

// newParts returns the parts of an episode that begins. The means over time come last of those that others change: waits turn pods away,
// partitions change what devices have in use, and the means add to the outcome of GPUs.
func newParts(e *Env) (parts []part) {
	if e.cfg.OpenB != nil && e.cfg.OpenB.Steady != nil {
		parts = append(parts, newWaits(e))
	}
	if slices.ContainsFunc(e.snapshot.Nodes, func(n *cluster.Node) bool { return n.Slices != nil }) {
		parts = append(parts, newPartitions(e))
	}
	if e.gpuCapacity() > 0 {
		parts = append(parts, newGPUDemand(e))
	}
	e.preferences, e.queue = &preferences{}, newQueue(e)
	parts = append(parts, e.queue, &timeMeans{}, e.preferences)
	if e.cfg.Usage != nil {
		parts = append(parts, newUsageState(e))
	}
	if e.cfg.Traffic != nil {
		parts = append(parts, newTrafficState(e))
	}
	return parts
}

// reused returns the part of a type among older copies, or a new one.
func reused[P any](old []part) *P {
	for _, p := range old {
		if same, is := any(p).(*P); is {
			return same
		}
	}
	return new(P)
}

// quiet does nothing at any event.
type quiet struct{}

func (quiet) track(*Env)                {}
func (quiet) arrives(*Env, int32)       {}
func (quiet) pends(*Env)                {}
func (quiet) refused(*Env, int32)       {}
func (quiet) placed(*Env, int32, int32) {}
func (quiet) left(*Env, int32, int32)   {}
func (quiet) pass(*Env, float64)        {}
func (quiet) report(*Env, *Outcome)     {}
func (quiet) due(*Env) float64          { return math.Inf(1) }
