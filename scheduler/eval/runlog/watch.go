package runlog

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Log collects observations during episodes, and writes comparisons. It is safe for concurrent use.
type Log struct {
	w      *runfolder.Writer
	shares int // scenarios times contenders

	mu    sync.Mutex
	waits map[string]*runfolder.Tally // by scenario
}

// key names a contender in a scenario.
type key struct{ scenario, contender string }

// New returns a log for a number of scenarios with a number of contenders each.
func New(w *runfolder.Writer, scenarios, contenders int) *Log {
	return &Log{w: w, shares: max(scenarios*contenders, 1), waits: map[string]*runfolder.Tally{}}
}

// Watched returns the contenders with the log as their observer. The log keeps frames and decisions of the
// episode of the first seed, and waiting times of all.
func (l *Log) Watched(s eval.Scenario, contenders []eval.Contender, first uint64) []eval.Contender {
	out := make([]eval.Contender, len(contenders))
	for i, c := range contenders {
		c.Observe = func(seed uint64) eval.Observer {
			return &watch{log: l, key: key{s.Name, c.Name}, seed: seed, keeps: seed == first}
		}
		out[i] = c
	}
	return out
}

// watch watches one episode.
type watch struct {
	log *Log
	key
	seed  uint64
	keeps bool // write frames and decisions

	plan   []sim.Arrival
	waited []float64       // by arrival: until it got its first node; NaN if it got none
	closed map[string]bool // nodes whose taints no pod of the plan tolerates, as of a control plane

	decisions      int     // so far
	everyDecision  int     // interval of the kept decisions, in decisions
	frameEvery     float64 // in time; 0: in decisions
	frameDecisions int
	due            float64 // time of the next frame, or number of its decision
}

// begin prepares for the episode that env begins.
func (w *watch) begin(env *sim.Env) {
	w.plan = env.Plan()
	w.waited = make([]float64, len(w.plan))
	for i := range w.waited {
		w.waited[i] = math.NaN()
	}
	w.closed = map[string]bool{}
	for _, n := range env.Snapshot().Nodes {
		w.closed[n.Name] = !n.Available() && !slices.ContainsFunc(w.plan, func(a sim.Arrival) bool { return n.Admits(a.Pod.Tolerations) })
	}
	frames := runfolder.Frames(len(env.Snapshot().Nodes), w.log.shares)
	decisions := runfolder.Decisions(w.log.shares)
	w.everyDecision = max((len(w.plan)+decisions-1)/decisions, 1)
	w.frameDecisions = max((len(w.plan)+frames-1)/frames, 1)
	if n := len(w.plan); n > 0 {
		w.due = w.plan[0].At
		w.frameEvery = (w.plan[n-1].At - w.plan[0].At) / float64(frames)
	}
}

// Decided implements eval.Observer.
func (w *watch) Decided(env *sim.Env, c eval.Choice) {
	if w.plan == nil {
		w.begin(env)
	}
	pod := env.Next()
	if math.IsNaN(w.waited[pod]) {
		w.waited[pod] = max(env.Now()-w.plan[pod].At, 0)
	}
	if w.keeps {
		w.frameIfDue(env)
		if w.decisions%w.everyDecision == 0 {
			w.log.w.Add(w.decision(env, c))
		}
	}
	w.decisions++
}

// frameIfDue writes a frame if it is time for one.
func (w *watch) frameIfDue(env *sim.Env) {
	if w.frameEvery <= 0 { // all pods arrive at the same time
		if w.decisions%w.frameDecisions == 0 {
			w.log.w.Add(w.frame(env, float64(w.decisions)))
		}
		return
	}
	if now := env.Now(); now >= w.due {
		w.log.w.Add(w.frame(env, now))
		w.due += w.frameEvery * max(math.Ceil((now-w.due)/w.frameEvery), 1)
	}
}

// frame returns the state of the cluster. The pending pod waits too.
func (w *watch) frame(env *sim.Env, at float64) runfolder.Frame {
	f := runfolder.Frame{Scenario: w.scenario, Contender: w.contender, Seed: w.seed, At: runfolder.Round(at), Waiting: len(env.Waiting())}
	if !env.Done() {
		f.Waiting++
	}
	for _, n := range env.Snapshot().Nodes {
		if w.closed[n.Name] {
			continue
		}
		f.Nodes = append(f.Nodes, runfolder.NodeOf(n))
	}
	return f
}

// decision returns the row of a choice.
func (w *watch) decision(env *sim.Env, c eval.Choice) runfolder.Decision {
	nodes, rows, pod := env.Snapshot().Nodes, env.Candidates(), env.Next()
	d := runfolder.Decision{
		Scenario: w.scenario, Contender: w.contender, Seed: w.seed, At: runfolder.Round(env.Now()), Waited: runfolder.Round(w.waited[pod]),
		Pod: fmt.Sprintf("%s-%d", env.Pending().Name, pod), Class: runfolder.ClassOf(env.Pending().Requests),
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

// finite returns a score that JSON can hold.
func finite(score float32) float64 {
	return min(max(float64(score), -math.MaxFloat32), math.MaxFloat32)
}

// Ended implements eval.Observer.
func (w *watch) Ended(env *sim.Env) {
	if w.plan == nil {
		w.begin(env)
	}
	if w.keeps {
		at := env.Now()
		if w.frameEvery <= 0 {
			at = float64(w.decisions)
		}
		w.log.w.Add(w.frame(env, at))
	}
	never := make([]bool, len(w.plan))
	for _, pod := range env.Waiting() {
		never[pod] = true
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	tally := w.log.waits[w.scenario]
	if tally == nil {
		tally = &runfolder.Tally{}
		w.log.waits[w.scenario] = tally
	}
	for i, a := range w.plan {
		t := w.waited[i]
		tally.Add(w.contender, a.Pod.Requests, t, !never[i] && !math.IsNaN(t))
	}
}
