package sim

import (
	"cmp"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/preference"
)

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

// reset starts anew with a number of shapes.
func (f *feasibleNodes) reset(s *cluster.Snapshot, shapes int) {
	*f = feasibleNodes{snapshot: s, shapes: make([]fitting, shapes), changed: f.changed[:0]}
}

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

// Preferred returns the indices of the candidates that preferences leave to a policy, ascending. It
// is valid until Step, which also takes any other candidate: kube-scheduler's default profile weighs
// preferences against resources.
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
