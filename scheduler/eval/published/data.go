package published

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// WriteCSV writes a row for each workload, policy and seed, with all digits.
func (r Report) WriteCSV(w io.Writer) error {
	rows := [][]string{slices.Concat([]string{"workload", "policy", "seed"}, eval.MetricNames(metrics), []string{"arrived", "placed"})}
	for _, c := range r.comparisons {
		rows = append(rows, c.Rows([]string{c.Scenario.Name}, func(o sim.Outcome) [][]string {
			return [][]string{append(eval.Figures(o, metrics...), strconv.Itoa(o.Arrived), strconv.Itoa(o.Placed))}
		})...)
	}
	return eval.WriteRows(w, rows)
}

type jsonWorkload struct {
	Workload string       `json:"workload"`
	Factor   float64      `json:"factor"`
	Seeds    []uint64     `json:"seeds"`
	Baseline string       `json:"baseline"`
	Bounds   []float64    `json:"bounds"` // upper bounds of the GPU allocation, 0 to 1, by seed
	Policies []jsonPolicy `json:"policies"`
}

type jsonPolicy struct {
	Name       string                   `json:"name"`
	Mean       map[string]eval.Interval `json:"mean"`                 // of each metric
	SD         map[string]float64       `json:"sd"`                   // standard deviation over the seeds
	Difference *eval.Difference         `json:"difference,omitempty"` // of gpuAllocation from the baseline, in percentage points
	Published  *figure                  `json:"published,omitempty"`
	Reproduced *bool                    `json:"reproduced,omitempty"`
	Outcomes   []sim.Outcome            `json:"outcomes"` // by seed
}

// MarshalJSON implements json.Marshaler: a list of the workloads.
func (r Report) MarshalJSON() ([]byte, error) {
	var out []jsonWorkload
	for i, c := range r.comparisons {
		w := jsonWorkload{Bounds: r.bounds[i], Workload: c.Scenario.Name, Factor: r.factor, Seeds: c.Seeds, Baseline: c.Results[0].Name}
		for i, x := range c.Results {
			p := jsonPolicy{Name: x.Name, Mean: map[string]eval.Interval{}, SD: map[string]float64{}, Outcomes: x.Outcomes}
			for _, m := range metrics {
				p.Mean[m.Name] = eval.MeanInterval(x.Values(m))
				_, p.SD[m.Name] = meanSD(x, m)
			}
			if i > 0 {
				p.Difference = new(c.Difference(x, allocation))
			}
			if f, known := r.published(c.Scenario.Name, x.Name); known {
				p.Published, p.Reproduced = &f, new(f.reproduces(x.Mean(allocation)))
			}
			w.Policies = append(w.Policies, p)
		}
		out = append(out, w)
	}
	return json.Marshal(out)
}
