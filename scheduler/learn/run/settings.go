package run

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/sim"
)

// Settings are the hyperparameters that all methods have. Like those of every method, they are
// the JSON fields of a job; package flags makes a command's flags of the tags flag and usage.
type Settings struct {
	Variant string `json:"variant"` // the network; package learn lists them
	Method  string `json:"method" flag:"method" usage:"how to learn: dqn or ppo, from rewards, each with networks of its head; or rollouts, from playing on after several candidates"`
	Hidden  int    `json:"hiddenLayers" flag:"hidden-layers" usage:"width of the hidden layers"`
	Seed    uint64 `json:"seed" flag:"seed" usage:"seed of everything random"`
	Steps   int    `json:"steps" flag:"steps" usage:"number of placements to learn from"`

	Features []string `json:"features,omitempty"` // names of the network's feature sets; none for base

	Gamma float64 `json:"gamma" flag:"gamma" usage:"discount of the next placement's reward"`
	// HalfLife, if it is not 0, takes the place of Gamma: see Discount.
	HalfLife     float64 `json:"halfLife,omitempty"` // placements after which a reward counts half
	LearningRate float64 `json:"learningRate" flag:"learning-rate" usage:"learning rate of Adam at the start; it falls linearly to a tenth"`
	BatchSize    int     `json:"batchSize" flag:"batch-size" usage:"number of decisions in an update"`
	ClipNorm     float64 `json:"clipNorm"` // largest norm of the gradient

	Reward    Reward    `json:"reward"`
	Imitation Imitation `json:"imitation"`
}

// Imitation says how a run learns from a heuristic, its teacher.
//
// In deep Q-learning the teacher's influence falls linearly from 1 to 0 over Share of the steps:
// the probability that it chooses the node, and the weight of the large-margin loss, which
// prefers its choice (DQfD, Hester et al. 2018).
//
// PPO spends the first Share of the steps on behaviour cloning. A mix of teacher and learner, in
// which the learner's part grows, visits the states (as in DAgger, Ross et al. 2011). For the next
// Warmup of the steps only the critic learns, until it knows the value of the cloned policy.
type Imitation struct {
	Teacher string  `json:"teacher" flag:"teacher" usage:"policy to imitate: the name of a heuristic, or the file of a linear policy or network"`
	Share   float64 `json:"share"` // share of the steps that imitate the teacher; 0 for none

	Margin       float64 `json:"margin"`       // lead over the other nodes that the margin loss demands for the teacher's choice, in units of Q
	MarginWeight float64 `json:"marginWeight"` // weight of the margin loss at the start
	MarginFloor  float64 `json:"marginFloor"`  // smallest weight of the margin loss

	Warmup      float64 `json:"warmup"`      // share of the steps, after cloning, in which only the critic learns
	Coefficient float64 `json:"coefficient"` // weight of cloning in PPO's loss at the start of PPO; it falls linearly to 0
}

// Taught tells whether any part of the run asks the teacher.
func (i Imitation) Taught() bool { return i.Share > 0 || i.Coefficient > 0 }

// Selection says how the best network of a run is chosen.
type Selection struct {
	EvaluateEvery int     `json:"evaluateEvery"`   // placements between evaluations
	EvaluateSeeds int     `json:"evaluateSeeds"`   // number of held-out episodes in an evaluation
	Unscheduled   float64 `json:"unscheduledCost"` // weight of the fraction of pods left over, against the objective, when the best network is chosen
}

// Validate reports the first value out of range. Variant and method are not checked.
func (s Settings) Validate() error {
	if err := s.Reward.validate(); err != nil {
		return err
	}
	if err := sim.CheckTrainingSeed(s.Seed); err != nil {
		return err
	}
	i := s.Imitation
	return CheckRanges([]Range{
		{"steps", float64(s.Steps), 1, 1e9},
		{"gamma", s.Gamma, 0, 1},
		{"half-life", s.HalfLife, 0, 1e9},
		{"learning rate", s.LearningRate, 1e-9, 1},
		{"batch size", float64(s.BatchSize), 1, 65536},
		{"clip norm", s.ClipNorm, 1e-6, 1e6},
		{"imitation's share", i.Share, 0, 1},
		{"margin", i.Margin, 0, 1e3},
		{"margin weight", i.MarginWeight, 0, 1e3},
		{"margin floor", i.MarginFloor, 0, 1e3},
		{"critic's warm-up", i.Warmup, 0, 1},
		{"imitation coefficient", i.Coefficient, 0, 1e3},
	})
}

// Validate reports the first value out of range.
func (s Selection) Validate() error {
	return CheckRanges([]Range{
		{"evaluate every", float64(s.EvaluateEvery), 1, 1e9},
		{"evaluate seeds", float64(s.EvaluateSeeds), 2, 1000},
		{"unscheduled cost", s.Unscheduled, 0, 1e6},
	})
}

// Range is a hyperparameter's value and the range in which it must lie, ends included.
type Range struct {
	Name             string
	Value, Low, High float64
}

// CheckRanges returns an error about the first value that is not in its range, NaN included.
func CheckRanges(all []Range) error {
	for _, r := range all {
		if !(r.Value >= r.Low && r.Value <= r.High) {
			return fmt.Errorf("%s is %v, want %v to %v", r.Name, r.Value, r.Low, r.High)
		}
	}
	return nil
}

// readsGroups tells whether a network of the architecture reads the groups of pods that run on
// each node.
func readsGroups(a checkpoint.Architecture) bool { return a.Encoder == checkpoint.GNN }

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
