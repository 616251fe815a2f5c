package learn

import "slices"

// Recorder takes what a run reports of itself, under tags that stay the same from version to
// version. package tensorboard has one.
type Recorder interface {
	Scalar(tag string, step int, v float64)
	Histogram(tag string, step int, values []float64)
}

// The tags of what a run reports, as CleanRL calls them where it has them.
const (
	TagReturn       = "charts/episodic_return"
	TagLength       = "charts/episodic_length"
	TagSpeed        = "charts/SPS"
	TagEpsilon      = "charts/epsilon"
	TagTeacher      = "charts/teacher"
	TagLearningRate = "charts/learning_rate"
	TagTDLoss       = "losses/td_loss"
	TagQ            = "losses/q_values"
	TagMargin       = "losses/margin"
	TagPolicyLoss   = "losses/policy_loss"
	TagValueLoss    = "losses/value_loss"
	TagEntropy      = "losses/entropy"
	TagKL           = "losses/approx_kl"
	TagClipped      = "losses/clipfrac"
	TagExplained    = "losses/explained_variance"
	TagCloning      = "losses/imitation"
	TagAgreement    = "losses/imitation_agreement"
	TagNorm         = "losses/gradient_norm"
	TagEvalCost     = "eval/cost"
	TagEvalMean     = "eval/mean_cost"
	TagEvalLeft     = "eval/unscheduled"
	TagVariance     = "cluster/variance"
	TagUnscheduled  = "cluster/unscheduled"
	TagActions      = "actions/histogram"
)

// figures collects the means of what happens between two reports.
type figures struct {
	tags    []string // in order of first sight
	means   map[string]*mean
	actions []float64 // rows of the nodes chosen
}

func (f *figures) add(tag string, v float64) {
	if f.means == nil {
		f.means = map[string]*mean{}
	}
	m, ok := f.means[tag]
	if !ok {
		m = &mean{}
		f.means[tag] = m
		f.tags = append(f.tags, tag)
		slices.Sort(f.tags)
	}
	m.add(v)
}

// report hands what came in since the last report to r, which may be nil, and starts anew.
func (f *figures) report(step int, r Recorder) {
	for _, tag := range f.tags {
		if m := f.means[tag]; m.n > 0 && r != nil {
			r.Scalar(tag, step, m.sum/m.n)
		}
		f.means[tag].take()
	}
	if len(f.actions) > 0 && r != nil {
		r.Histogram(TagActions, step, f.actions)
	}
	f.actions = f.actions[:0]
}

// last returns the mean of the last report in which the tag had one; 0 for none.
func (f *figures) last(tag string) float64 {
	if m, ok := f.means[tag]; ok {
		return m.last
	}
	return 0
}

// episode notes how one went.
func (f *figures) episode(e ended) {
	f.add(TagReturn, e.Return)
	f.add(TagLength, float64(e.Length))
	f.add(TagVariance, e.Outcome.CPUVariance)
	f.add(TagUnscheduled, float64(e.Outcome.Unscheduled))
}

// mean collects values between two reports.
type mean struct{ n, sum, last float64 }

func (m *mean) add(x float64) { m.n, m.sum = m.n+1, m.sum+x }

// take returns the mean since the last call, the one before where there is none, and starts
// anew.
func (m *mean) take() float64 {
	if m.n > 0 {
		m.last = m.sum / m.n
	}
	m.n, m.sum = 0, 0
	return m.last
}
