package eval

import (
	"encoding/json"

	"gnnsched/scheduler/sim"
)

type jsonComparison struct {
	Scenario   string       `json:"scenario"`
	About      string       `json:"about"`
	Seeds      []uint64     `json:"seeds"`
	Samples    int          `json:"samples"` // independent episodes: of one, intervals and p say nothing
	Baseline   string       `json:"baseline"`
	Policies   []jsonResult `json:"policies"`
	Thresholds []Verdict    `json:"thresholds,omitempty"`
}

type jsonResult struct {
	Name       string                `json:"name"`
	Mean       map[string]float64    `json:"mean"`
	Difference map[string]Difference `json:"difference,omitempty"` // from the baseline
	Outcomes   []sim.Outcome         `json:"outcomes"`             // by seed
}

// MarshalJSON implements json.Marshaler. The object has every outcome, the mean of every metric
// and its difference from the baseline, and the verdicts on the thresholds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	out := jsonComparison{
		Scenario: c.Scenario.Name, About: c.Scenario.About, Seeds: c.Seeds, Samples: c.Samples(),
		Baseline: c.Results[0].Name, Thresholds: c.Verdicts,
	}
	for i, r := range c.Results {
		j := jsonResult{Name: r.Name, Mean: map[string]float64{}, Outcomes: r.Outcomes}
		if i > 0 {
			j.Difference = map[string]Difference{}
		}
		for _, m := range Metrics {
			j.Mean[m.Name] = r.Mean(m)
			if i > 0 {
				j.Difference[m.Name] = c.Difference(r, m)
			}
		}
		out.Policies = append(out.Policies, j)
	}
	return json.Marshal(out)
}
