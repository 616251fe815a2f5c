package eval

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/sim"
)

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
