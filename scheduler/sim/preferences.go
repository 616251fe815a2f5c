package sim

import (
	"slices"

	"gnnsched/internal/cluster"
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
	scorer  *preference.Scorer
	running [][]int32          // by deployment, if its pods have an owner: the rows of its running pods
	rated   bool               // sums are those of the pending pod
	by      preference.Weights // of sums
	sums    []int64
	best    []int32 // reused
}

// newPreferences returns the preferences of an episode before its first pod.
func newPreferences(m preference.Mode, nodes []*cluster.Node, deployments int) preferences {
	p := preferences{scorer: preference.NewScorer(m, nodes)}
	if p.scorer.Spreads() {
		p.running = make([][]int32, deployments)
	}
	return p
}

// add records that a pod of a deployment began to run on the node of a row.
func (p *preferences) add(deployment int32, d *deployment, row int32) {
	if p.running == nil || d.pod.Owner == "" {
		return
	}
	rows := &p.running[deployment]
	if *rows == nil {
		*rows = make([]int32, 0, d.replicas)
	}
	*rows = append(*rows, row)
}

// remove records that a pod of a deployment left the node of a row.
func (p *preferences) remove(deployment int32, d *deployment, row int32) {
	if p.running == nil || d.pod.Owner == "" {
		return
	}
	rows := p.running[deployment]
	i, last := slices.Index(rows, row), len(rows)-1
	rows[i] = rows[last]
	p.running[deployment] = rows[:last]
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
	p := &e.preferences
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
	p := &e.preferences
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
