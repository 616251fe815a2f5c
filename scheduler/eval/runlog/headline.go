package runlog

import "gnnsched/scheduler/eval"

// row compares a policy with a baseline on one scenario.
type row struct {
	Scenario         string
	Baseline, Policy eval.Result
	// Difference is the policy's objective over time minus the baseline's, and Left the same for the unscheduled pods.
	Difference, Left eval.Difference
}

// verdict says in a word how the policy of a row does beside the baseline.
type verdict string

// The verdicts. Ahead is better in the objective or in the unscheduled pods and not worse in the other, and behind the contrary.
const (
	ahead     verdict = "ahead"
	behind    verdict = "behind"
	mixed     verdict = "mixed" // better in one, worse in the other
	level     verdict = "level"
	unclear   verdict = "unclear" // eval.Unclear in one, and neither better nor worse in the other
	fewSeeds  verdict = "too few seeds"
	oneSample verdict = "one sample"
)

// verdict returns the row in a word.
func (r row) verdict() verdict {
	has := func(m eval.Mark) bool { return r.Difference.Mark == m || r.Left.Mark == m }
	switch {
	case r.Difference.Samples < 2:
		return oneSample
	case has(eval.Unmarked):
		return fewSeeds
	case has(eval.Lower) && has(eval.Higher):
		return mixed
	case has(eval.Lower):
		return ahead
	case has(eval.Higher):
		return behind
	case has(eval.Unclear):
		return unclear
	}
	return level
}
