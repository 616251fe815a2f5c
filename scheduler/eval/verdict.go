package eval

import "fmt"

// Verdict is a threshold with the values of its two sides and whether it holds.
type Verdict struct {
	Threshold Threshold `json:"threshold"`
	Left      float64   `json:"left"`
	Right     float64   `json:"right"`
	Pass      bool      `json:"pass"`
}

// String returns the verdict as a line for people.
func (v Verdict) String() string {
	word := "PASS"
	if !v.Pass {
		word = "FAIL"
	}
	return fmt.Sprintf("%s %s (%.4g and %.4g)", word, v.Threshold, v.Left, v.Right)
}

// Judge sets the verdicts on the given thresholds that concern the scenario, and on the scenario's
// own. It returns an error if a threshold names a policy that is not in the comparison.
func (c *Comparison) Judge(thresholds []Threshold) error {
	c.Verdicts = nil
	var policies []string
	for _, r := range c.Results {
		policies = append(policies, r.Name)
	}
	for _, t := range c.Scenario.judged(thresholds) {
		if err := t.needs(policies); err != nil {
			return err
		}
		v := Verdict{Threshold: t, Left: c.sum(t.left), Right: c.sum(t.right)}
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
	return nil
}

func (c *Comparison) sum(terms []term) (sum float64) {
	for _, x := range terms {
		value := 1.0
		for _, r := range c.Results {
			if x.policy != "" && r.Name == x.policy {
				value = r.Mean(metric(x.metric))
			}
		}
		sum += x.factor * value
	}
	return sum
}
