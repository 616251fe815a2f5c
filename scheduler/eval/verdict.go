package eval

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/choice"
)

// Verdict is a threshold with the values of its two sides and whether it holds.
type Verdict struct {
	Threshold Threshold `json:"threshold"`
	Left      float64   `json:"left"`
	Right     float64   `json:"right"`
	Pass      bool      `json:"pass"`
	// P is the p of Wilcoxon's signed-rank test between the two sides, adjusted by Holm for the thresholds
	// judged together; nil with one sample. It does not decide: a threshold compares means.
	P *float64 `json:"p,omitempty"`
}

// String returns the verdict as a line for people.
func (v Verdict) String() string {
	word := "PASS"
	if !v.Pass {
		word = "FAIL"
	}
	chance := ""
	if v.P != nil {
		chance = ", p " + Significance(*v.P)
	}
	return fmt.Sprintf("%s %s (%.4g and %.4g%s)", word, v.Threshold, v.Left, v.Right, chance)
}

// Judge sets the verdicts on the given thresholds that concern the scenario, and on the scenario's
// own. It returns an error if a threshold names a policy that is not in the comparison.
func (c *Comparison) Judge(thresholds []Threshold) error {
	c.Verdicts = nil
	policies := choice.Names(c.Results, func(r Result) string { return r.Name })
	var ps []float64
	for _, t := range c.Scenario.judged(thresholds) {
		if err := t.needs(policies); err != nil {
			return err
		}
		left, right := c.sums(t.left), c.sums(t.right)
		v := Verdict{Threshold: t, Left: stat.Mean(left, nil), Right: stat.Mean(right, nil)}
		ps = append(ps, Wilcoxon(grains(left, right)))
		switch t.operator {
		case "<":
			v.Pass = v.Left < v.Right
		case "<=":
			v.Pass = v.Left <= v.Right
		case ">":
			v.Pass = v.Left > v.Right
		case ">=":
			v.Pass = v.Left >= v.Right
		}
		c.Verdicts = append(c.Verdicts, v)
	}
	if c.Samples() > 1 {
		for i, p := range holm(ps) {
			c.Verdicts[i].P = &p
		}
	}
	return nil
}

// sums returns the sum of the terms on each seed.
func (c *Comparison) sums(terms []term) []float64 {
	out := make([]float64, len(c.Seeds))
	for _, x := range terms {
		values := slices.Repeat([]float64{1}, len(out))
		for _, r := range c.Results {
			if x.policy != "" && r.Name == x.policy {
				values = r.Values(metric(x.metric))
			}
		}
		for i, v := range values {
			out[i] += x.factor * v
		}
	}
	return out
}
