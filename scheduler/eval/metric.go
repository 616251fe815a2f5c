package eval

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// Metric is one figure of an outcome. Less is better, except for allocations.
type Metric struct {
	Name   string // in thresholds, CSV and JSON
	Title  string // in tables for people
	Digits int    // after the point
	Of     func(sim.Outcome) float64
	// shown tells whether tables for people show the metric in a comparison. It hides metrics that
	// say nothing there, such as GPUs on a cluster without GPUs.
	shown func(*Comparison) bool
}

// Objective and Unscheduled are the metrics that every report shows.
var (
	Objective   = Metric{"cost", "objective", 4, func(o sim.Outcome) float64 { return o.Cost }, always}
	Unscheduled = Metric{"unscheduled", "unscheduled", 1, func(o sim.Outcome) float64 { return float64(o.Unscheduled) }, always}
)

// Metrics are all metrics, in the order of the columns.
var Metrics = []Metric{
	Objective,
	{"meanCost", "over time", 4, func(o sim.Outcome) float64 { return o.MeanCost }, always},
	{"cpuStd", "cpu std", 4, func(o sim.Outcome) float64 { return o.CPUStd }, always},
	{"cpuVariance", "cpu variance", 6, func(o sim.Outcome) float64 { return o.CPUVariance }, always},
	{"memoryStd", "memory std", 4, func(o sim.Outcome) float64 { return o.MemoryStd }, always},
	{"imbalance", "imbalance", 4, func(o sim.Outcome) float64 { return o.Imbalance }, always},
	Unscheduled,
	{"waited", "waited", 1, func(o sim.Outcome) float64 { return float64(o.Waited) }, always},
	{"nodesInUse", "nodes in use", 1, func(o sim.Outcome) float64 { return float64(o.NodesInUse) }, always},
	{"meanNodesInUse", "mean in use", 1, func(o sim.Outcome) float64 { return o.MeanNodesInUse }, always},
	{"zoneStd", "zone std", 4, func(o sim.Outcome) float64 { return o.ZoneStd },
		somewhere(func(o sim.Outcome) bool { return o.ZoneStd > 0 })}, // with one zone, it is always 0
	{"roomLost", "room lost", 4, func(o sim.Outcome) float64 { return 1 - o.Room }, whereFor(objective.Pack{}, objective.Fragmentation{})},
	{"fragmentation", "fragmentation", 4, func(o sim.Outcome) float64 { return o.Fragmentation }, whereFor(objective.Fragmentation{})},
	{"waiting", "waiting", 4, func(o sim.Outcome) float64 { return o.Waiting },
		somewhere(func(o sim.Outcome) bool { return o.Waiting > 0 })},
	{"pending", "pending", 1, func(o sim.Outcome) float64 { return o.Pending }, whereFor(objective.Waiting{})},
	{"evicted", "evicted", 1, func(o sim.Outcome) float64 { return float64(o.Evicted) }, nowhere},
	{"moves", "moves", 1, ofMoves(func(m *sim.MovesOutcome) float64 { return float64(m.Moved) }), whereMoves},
	{"movedWork", "moved work", 1, ofMoves(func(m *sim.MovesOutcome) float64 { return m.Work }), whereMoves},
	{"gpuIdle", "gpu idle", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return 1 - g.Allocation }), whereGPUs},
	{"gpuIdleOverTime", "gpu idle over time", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.MeanIdle }), whereGPUs},
	{"ordinaryImbalance", "ordinary nodes", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.OrdinaryImbalance }), whereGPUs},
	{"gpuStranded", "gpu stranded", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.Stranded }), whereGPUs},
	{"throttled", "throttled", 0, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Throttled }), whereUsage},
	{"throttledPart", "throttled part", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.ThrottledPart }), whereUsage},
	{"batchSlowdown", "batch slowdown", 3, ofUsage(func(u *sim.UsageOutcome) float64 { return u.BatchSlowdown }), whereUsage},
	{"hotTime", "hot time", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.HotTime }), whereUsage},
	{"cpuUnused", "cpu unused", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return 1 - u.Utilisation }), whereUsage},
	{"watts", "watts", 0, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Watts }), whereUsage},
	{"joulesOfWork", "joules of work", 3, ofUsage(func(u *sim.UsageOutcome) float64 { return u.JoulesOfWork }), whereUsage},
	{"resourcesUnused", "resources unused", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return 1 - u.InUse }), whereUsage},
	{"usageImbalance", "usage imbalance", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Imbalance }), whereUsage},
	{"distance", "distance", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Distance }), whereTraffic},
	{"latency", "latency", 3, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Latency }), whereTraffic},
	{"price", "price", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Price }), whereTraffic},
	{"zoneTraffic", "between zones", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Zones }), whereTraffic},
	{"excess", "excess", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Excess }), whereTraffic},
	{"overloadedLinks", "overloaded links", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Overload }), whereTraffic},
}

// compared names the metrics whose differences from the baseline the long table shows.
var compared = []string{
	"meanCost", "cost", "cpuStd", "imbalance", "unscheduled", "waiting", "nodesInUse", "zoneStd", "roomLost", "gpuIdle", "gpuIdleOverTime",
	"ordinaryImbalance", "throttled", "hotTime", "watts", "joulesOfWork", "resourcesUnused", "usageImbalance", "latency", "price",
	"zoneTraffic", "overloadedLinks",
}

// Shows tells whether tables for people have the metric.
func (c *Comparison) Shows(m Metric) bool { return m.shown(c) }

func always(*Comparison) bool { return true }

func nowhere(*Comparison) bool { return false }

// of returns what makes a metric of a part of an outcome, which is 0 without that part, and what tells whether comparisons have the part.
func of[P any](part func(sim.Outcome) *P) (metric func(func(*P) float64) func(sim.Outcome) float64, where func(*Comparison) bool) {
	metric = func(of func(*P) float64) func(sim.Outcome) float64 {
		return func(o sim.Outcome) float64 {
			if p := part(o); p != nil {
				return of(p)
			}
			return 0
		}
	}
	return metric, somewhere(func(o sim.Outcome) bool { return part(o) != nil })
}

var (
	ofMoves, whereMoves     = of(func(o sim.Outcome) *sim.MovesOutcome { return o.Moves })
	ofGPUs, whereGPUs       = of(func(o sim.Outcome) *sim.GPUOutcome { return o.GPU })
	ofUsage, whereUsage     = of(func(o sim.Outcome) *sim.UsageOutcome { return o.Usage })
	ofTraffic, whereTraffic = of(func(o sim.Outcome) *sim.TrafficOutcome { return o.Traffic })
)

// somewhere returns a function that tells whether an outcome of a comparison is such.
func somewhere(is func(sim.Outcome) bool) func(*Comparison) bool {
	return func(c *Comparison) bool {
		return slices.ContainsFunc(c.Results, func(r Result) bool { return slices.ContainsFunc(r.Outcomes, is) })
	}
}

// whereFor returns a function that tells whether the scenario's objective has one of the terms.
func whereFor(terms ...objective.Term) func(*Comparison) bool {
	return func(c *Comparison) bool {
		return slices.ContainsFunc(c.Scenario.Objective, func(w objective.Weighted) bool {
			return slices.ContainsFunc(terms, func(t objective.Term) bool { return t.Name() == w.Term.Name() })
		})
	}
}

// FindMetric returns the metric with a name.
func FindMetric(name string) (Metric, error) {
	if m, found := loadMetric(name); found {
		return m, nil
	}
	return choice.Find("metric", name, slices.Concat(Metrics, Filling), Metric.name)
}

// metric returns the metric with a name that is written in this package.
func metric(name string) Metric {
	m, err := FindMetric(name)
	if err != nil {
		panic("eval: " + err.Error())
	}
	return m
}

func (m Metric) name() string { return m.Name }

// MetricNames returns the names of metrics.
func MetricNames(of []Metric) []string { return choice.Names(of, Metric.name) }

// About describes the metric.
func (m Metric) About() string { return abouts[m.Name] }

var abouts = map[string]string{
	"cost":           "the scenario's objective at the end of the episode",
	"meanCost":       "the same, averaged over the time after the load was reached",
	"cpuStd":         "standard deviation of the nodes' CPU fractions at the end",
	"cpuVariance":    "its square",
	"memoryStd":      "standard deviation of the nodes' memory fractions at the end",
	"imbalance":      "the objective balance, averaged over the time after the load was reached",
	"unscheduled":    "pods without a node at the end",
	"waited":         "pods that got their node late or not at all",
	"nodesInUse":     "nodes with at least one pod at the end",
	"meanNodesInUse": "the same, averaged over time",
	"zoneStd":        "the objective zones at the end",
	"roomLost":       "large pods that no longer fit, as a fraction of those that fit on the empty nodes",
	"fragmentation":  "the objective fragmentation at the end",
	"waiting":        "what pods without a node request, as a share of what the cluster offers, averaged over time (the objective waiting)",
	"pending":        "waiting pods, averaged over time",
	"evicted":        "pods whose node was lost",
	"moves":          "moves of running pods (defrag=SHARE/TIME:POLICY)",
	"movedWork": "GPUs of the moved pods, or CPUs without GPUs, times the time for which they had run: " +
		"the work lost if a move loses all",
	"gpuIdle":           "fraction of the GPU capacity that is not requested at the end",
	"gpuIdleOverTime":   "the objective gpu-idle, averaged over time",
	"ordinaryImbalance": "the objective ordinary, averaged over time",
	"gpuStranded":       "fraction of the GPU capacity that is idle at the end on nodes that lack the CPU for it",
	"throttled":         "core-seconds that services wanted, within their limits, and did not get",
	"throttledPart":     "the same as a share of what services wanted",
	"batchSlowdown":     "time that batch jobs took, divided by their time with all the CPU they wanted",
	"hotTime":           "share of node-time with over 80 % of a node's CPU, network or disk in use",
	"cpuUnused":         "1 minus the mean utilisation of CPU",
	"watts":             "what the nodes drew, averaged over time",
	"joulesOfWork":      "joules for each core-second of CPU that was used",
	"resourcesUnused":   "1 minus the fraction in use, averaged over nodes, dimensions in use and time",
	"usageImbalance":    "standard deviation of the nodes' fractions in use, averaged over the dimensions in use and time",
	"distance":          "mean distance of a byte, as a share of the farthest",
	"latency":           "mean latency of a byte, in milliseconds",
	"price":             "mean price of a gigabyte",
	"zoneTraffic":       "share of the bytes that go between zones",
	"excess":            "traffic over the bandwidth of the links, as a share of all traffic",
	"overloadedLinks":   "share of the time of links with a limit in which they have more than their bandwidth",
}

// Watching collects what is seen of a comparison's episodes. It is safe for concurrent use.
type Watching struct {
	mu    sync.Mutex
	waits Tally
	kept  map[string]Seen // by contender
}

// Seen has the observations of an episode.
type Seen struct {
	Frames    []Frame
	Decisions []Decision
	Pods      []Wait // by arrival
}

// Wait is the waiting time of a pod.
type Wait struct {
	Class
	For float64 // until it got its first node; NaN if it has none in the end
}

// Watched returns the contenders, whom the result watches: it keeps frames and decisions of the episode of the first seed, and waiting
// times of all. shares is the number of contenders in all scenarios, among whom the bounds of what is kept are divided.
func Watched(contenders []Contender, first uint64, shares int) ([]Contender, *Watching) {
	w, out := &Watching{kept: map[string]Seen{}}, slices.Clone(contenders)
	for i, c := range contenders {
		out[i].Observe = func(seed uint64) Observer {
			return &Watch{Contender: c.Name, Seed: seed, Keeps: seed == first, Shares: shares, watching: w}
		}
	}
	return out, w
}

// Into gives a comparison what was seen of its episodes.
func (w *Watching) Into(c *Comparison) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Observed = &Observed{Unit: "arrivals"}
	if c.Scenario.Trace != nil || c.Scenario.OpenB != nil {
		c.Observed.Unit = "seconds"
	}
	for _, r := range c.Results {
		seen := w.kept[r.Name]
		c.Observed.Frames = append(c.Observed.Frames, seen.Frames...)
		c.Observed.Decisions = append(c.Observed.Decisions, seen.Decisions...)
	}
	c.Observed.Waits = w.waits.Rows(choice.Names(c.Results, func(r Result) string { return r.Name })...)
}

// Watch watches one episode. Its exported fields are data, for a worker that plays the episode.
type Watch struct {
	Contender string
	Seed      uint64
	Keeps     bool // frames and decisions
	Shares    int  // as of Watched
	Seen      Seen `json:"-"` // whole when the episode has ended

	watching *Watching // nil on a worker
	plan     []sim.Arrival
	waited   []float64       // by arrival: until it got its first node; NaN if it got none
	closed   map[string]bool // nodes whose taints no pod of the plan tolerates, as of a control plane

	decisions     int  // so far
	everyDecision int  // interval of the kept decisions, in decisions
	counts        bool // frames go by the number of decisions, not by time
	every, due    float64
}

// begin prepares for the episode that env begins.
func (w *Watch) begin(env *sim.Env) {
	w.plan = env.Plan()
	w.waited = slices.Repeat([]float64{math.NaN()}, len(w.plan))
	w.closed = map[string]bool{}
	for _, n := range env.Snapshot().Nodes {
		w.closed[n.Name] = !n.Available() && !slices.ContainsFunc(w.plan, func(a sim.Arrival) bool { return n.Admits(a.Pod.Tolerations) })
	}
	frames := Frames(len(env.Snapshot().Nodes), w.Shares)
	decisions := Decisions(w.Shares)
	w.everyDecision = max((len(w.plan)+decisions-1)/decisions, 1)
	if n := len(w.plan); n > 0 {
		w.due = w.plan[0].At
		w.every = (w.plan[n-1].At - w.due) / float64(frames)
	}
	if w.every <= 0 { // all pods arrive at the same time
		w.counts, w.due, w.every = true, 0, max(math.Ceil(float64(len(w.plan))/float64(frames)), 1)
	}
}

// Decided implements Observer.
func (w *Watch) Decided(env *sim.Env, c Choice) {
	if w.plan == nil {
		w.begin(env)
	}
	pod := env.Next()
	if math.IsNaN(w.waited[pod]) {
		w.waited[pod] = max(env.Now()-w.plan[pod].At, 0)
	}
	if w.Keeps {
		if now := w.now(env); now >= w.due {
			w.frame(env)
			w.due += w.every * max(math.Ceil((now-w.due)/w.every), 1)
		}
		if w.decisions%w.everyDecision == 0 {
			w.Seen.Decisions = append(w.Seen.Decisions, w.decision(env, c))
		}
	}
	w.decisions++
}

// now returns the time by which frames go.
func (w *Watch) now(env *sim.Env) float64 {
	if w.counts {
		return float64(w.decisions)
	}
	return env.Now()
}

// frame keeps the state of the cluster. The pod that is being placed does not wait.
func (w *Watch) frame(env *sim.Env) {
	f := Frame{Contender: w.Contender, Seed: w.Seed, At: Round(w.now(env)), Waiting: len(env.Waiting())}
	for _, n := range env.Snapshot().Nodes {
		if w.closed[n.Name] {
			continue
		}
		f.Nodes = append(f.Nodes, nodeOf(n))
	}
	w.Seen.Frames = append(w.Seen.Frames, f)
}

// decision describes a choice.
func (w *Watch) decision(env *sim.Env, c Choice) Decision {
	nodes, rows, pod := env.Snapshot().Nodes, env.Candidates(), env.Next()
	d := Decision{
		Contender: w.Contender, Seed: w.Seed, At: Round(env.Now()), Waited: Round(w.waited[pod]),
		Pod: fmt.Sprintf("%s-%d", env.Pending().Name, pod), Class: ClassOf(env.Pending()).String(),
		Feasible: len(rows), Node: nodes[rows[c.Candidate]].Name,
	}
	if c.Scores == nil {
		return d
	}
	d.Score = finite(c.Scores[c.Candidate])
	best := math.Inf(-1)
	for i, score := range c.Scores {
		if i != c.Candidate && float64(score) > best {
			best, d.RunnerUp, d.RunnerUpScore = float64(score), nodes[rows[i]].Name, finite(score)
		}
	}
	return d
}

// finite returns a score that JSON can hold. Gob would lose the sign of a zero.
func finite(score float32) float64 {
	return min(max(float64(score), -math.MaxFloat32), math.MaxFloat32) + 0
}

// Ended implements Observer.
func (w *Watch) Ended(env *sim.Env) {
	if w.plan == nil {
		w.begin(env)
	}
	if w.Keeps {
		w.frame(env)
	}
	for _, pod := range env.Waiting() {
		w.waited[pod] = math.NaN()
	}
	for i, a := range w.plan {
		w.Seen.Pods = append(w.Seen.Pods, Wait{ClassOf(a.Pod), w.waited[i]})
	}
	if w.watching != nil {
		w.Take(w.Seen)
	}
}

// Take hands on what was seen of the episode.
func (w *Watch) Take(s Seen) {
	l := w.watching
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Keeps {
		l.kept[w.Contender] = s
	}
	for _, p := range s.Pods {
		l.waits.Add(w.Contender, p.Class, p.For, !math.IsNaN(p.For))
	}
}
