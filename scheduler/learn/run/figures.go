package run

import "slices"

// Recorder takes the figures that a run reports. Their tags stay the same from version to
// version. Package tensorboard has one.
type Recorder interface {
	Scalar(tag string, step int, v float64)
	Histogram(tag string, step int, values []float64)
}

// The tags that several methods report, named as in CleanRL where it has them. Each method has
// more of its own.
const (
	TagEpsilon      = "charts/epsilon"
	TagLearningRate = "charts/learning_rate"
	TagNorm         = "losses/gradient_norm" // before clipping

	tagReturn      = "charts/episodic_return" // undiscounted scaled return of a training episode; of a truncated one, up to there
	tagLength      = "charts/episodic_length" // its placements
	tagSpeed       = "charts/SPS"             // steps a second
	tagEvalCost    = "eval/cost"              // the objective at the end of held-out episodes
	tagEvalMean    = "eval/mean_cost"         // the objective over time there
	tagEvalLeft    = "eval/unscheduled"       // pods left over there
	tagVariance    = "cluster/variance"       // of the nodes' CPU fractions at the end of training episodes
	tagUnscheduled = "cluster/unscheduled"    // pods left over there
	tagActions     = "actions/histogram"      // rows of the chosen nodes
)

// Figures collects values between two reports, and reports their means. The zero value is ready.
type Figures struct {
	tags    []string // sorted
	means   map[string]*mean
	actions []float64 // rows of the nodes chosen
}

// Add notes a value under a tag.
func (f *Figures) Add(tag string, v float64) {
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
	m.n++
	m.sum += v
}

// Action notes the row of the node that was chosen.
func (f *Figures) Action(row int32) { f.actions = append(f.actions, float64(row)) }

// Report gives r the means since the last report and starts anew. r may be nil.
func (f *Figures) Report(step int, r Recorder) {
	for _, tag := range f.tags {
		m := f.means[tag]
		if m.n == 0 {
			continue
		}
		m.last = m.sum / m.n
		m.n, m.sum = 0, 0
		if r != nil {
			r.Scalar(tag, step, m.last)
		}
	}
	if len(f.actions) > 0 && r != nil {
		r.Histogram(tagActions, step, f.actions)
	}
	f.actions = f.actions[:0]
}

// Last returns the mean of the last report in which the tag had one; 0 if there is none.
func (f *Figures) Last(tag string) float64 {
	if m, ok := f.means[tag]; ok {
		return m.last
	}
	return 0
}

// Count returns how many values a tag has got since the last report.
func (f *Figures) Count(tag string) int {
	if m, ok := f.means[tag]; ok {
		return int(m.n)
	}
	return 0
}

// episode notes the outcome of one.
func (f *Figures) episode(e episode) {
	f.Add(tagReturn, e.ret)
	f.Add(tagLength, float64(e.length))
	f.Add(tagVariance, e.outcome.CPUVariance)
	f.Add(tagUnscheduled, float64(e.outcome.Unscheduled))
}

// mean holds the values of a tag since the last report, and the mean of that report.
type mean struct{ n, sum, last float64 }
