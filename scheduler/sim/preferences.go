package sim

import (
	"slices"

	"gnnsched/scheduler/policy/preference"
)

// PreferenceModes are the modes that an environment knows. Blend is not among them: the scores of
// LearnedScore, which it adds to others, exist in a scheduler only.
var PreferenceModes = []preference.Mode{preference.First, preference.Declared, preference.Off}

// PreferenceMode returns Preferences or its default.
func (c Config) PreferenceMode() preference.Mode {
	if c.Preferences == "" {
		return preference.First
	}
	return c.Preferences
}

// preferences rates the candidates of the pending pod, at most once for each decision.
type preferences struct {
	quiet
	scorer  *preference.Scorer
	running [][]int32          // by deployment, if its pods have an owner: the rows of its running pods
	rated   bool               // sums are those of the pending pod
	by      preference.Weights // of sums
	sums    []int64
	best    []int32 // reused
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

func (p *preferences) pends(*Env) { p.rated = false }

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
