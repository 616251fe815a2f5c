package eval

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"

	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

type jsonComparison struct {
	Scenario   string       `json:"scenario"`
	Hash       string       `json:"hash,omitempty"` // Scenario.Hash
	About      string       `json:"about"`
	Objective  string       `json:"objective"`
	Seeds      []uint64     `json:"seeds"`
	Samples    int          `json:"samples"` // independent episodes: of one, intervals and p say nothing
	Baseline   string       `json:"baseline"`
	Policies   []jsonResult `json:"policies"`
	Thresholds []Verdict    `json:"thresholds,omitempty"`
	Observed   *Observed    `json:"observed,omitempty"`
}

type jsonResult struct {
	Name       string                `json:"name"`
	Kind       Kind                  `json:"kind"`
	Mean       map[string]float64    `json:"mean"`
	Difference map[string]Difference `json:"difference,omitempty"` // from the baseline
	Outcomes   []sim.Outcome         `json:"outcomes"`             // by seed
}

// MarshalJSON implements json.Marshaler. The object has every outcome, the mean of every metric
// and its difference from the baseline, and the verdicts on the thresholds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	out := jsonComparison{
		Scenario: c.Scenario.Name, Hash: c.hash, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Seeds: c.Seeds,
		Samples:  c.Samples(),
		Baseline: c.Results[0].Name, Thresholds: c.Verdicts, Observed: c.Observed,
	}
	for i, r := range c.Results {
		j := jsonResult{Name: r.Name, Kind: r.Kind, Outcomes: r.Outcomes}
		j.Mean, j.Difference = c.Named(i, c.metrics())
		out.Policies = append(out.Policies, j)
	}
	return json.Marshal(out)
}

// Named returns the means of result i and its differences from the baseline, by the names of metrics.
func (c *Comparison) Named(i int, metrics []Metric) (mean map[string]float64, difference map[string]Difference) {
	mean, difference = map[string]float64{}, map[string]Difference{}
	for _, m := range metrics {
		if mean[m.Name] = c.Results[i].Mean(m); i > 0 {
			difference[m.Name] = c.Difference(c.Results[i], m)
		}
	}
	return mean, difference
}

// ReadJSON reads comparisons that MarshalJSON wrote, as a list. Their scenarios have a name, a sentence about
// them, an objective and thresholds, and cannot be played again.
func ReadJSON(r io.Reader) ([]*Comparison, error) {
	var list []jsonComparison
	if err := json.NewDecoder(r).Decode(&list); err != nil {
		return nil, fmt.Errorf("not the output of gnnsched eval -o json: %w", err)
	}
	var out []*Comparison
	for i, j := range list {
		c, err := j.comparison()
		if err != nil {
			return nil, fmt.Errorf("comparison %d: %w", i+1, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (j jsonComparison) comparison() (*Comparison, error) {
	c := &Comparison{
		Scenario: Scenario{Name: j.Scenario, About: j.About}, Seeds: j.Seeds, OneWorkload: j.Samples < len(j.Seeds), Verdicts: j.Thresholds,
		hash: j.Hash, Observed: j.Observed,
	}
	var err error
	if j.Objective != "" {
		if c.Scenario.Objective, err = objective.Parse(j.Objective); err != nil {
			return nil, err
		}
	}
	if len(j.Seeds) == 0 || len(j.Policies) == 0 {
		return nil, fmt.Errorf("%s has no seed or no policy", j.Scenario)
	}
	for _, v := range j.Thresholds {
		c.Scenario.Thresholds = append(c.Scenario.Thresholds, v.Threshold)
	}
	for _, p := range j.Policies {
		if len(p.Outcomes) != len(j.Seeds) {
			return nil, fmt.Errorf("%s has %d outcomes of %s, want one for each of the %d seeds", j.Scenario, len(p.Outcomes), p.Name, len(j.Seeds))
		}
		c.Results = append(c.Results, Result{Name: p.Name, Kind: p.Kind, Outcomes: p.Outcomes})
	}
	return c, nil
}

// Merge joins comparisons that were played on the same scenario with the same seeds, as several files may hold them: the first has the
// baseline, and a policy that is in both must have the same outcomes. Results that cannot be compared, because the scenarios have the
// same name and other contents, are an error.
func Merge(all []*Comparison) ([]*Comparison, error) {
	var out []*Comparison
next:
	for _, c := range all {
		for _, o := range out {
			if o.Scenario.Name != c.Scenario.Name || o.hash == "" || c.hash == "" {
				continue
			}
			if o.hash != c.hash {
				return nil, fmt.Errorf("%s was played from two different files (hashes %s and %s): the results cannot be compared", c.Scenario.Name,
					o.hash, c.hash)
			}
			if !slices.Equal(o.Seeds, c.Seeds) {
				continue
			}
			o.observe(c)
			if err := o.add(c.Results); err != nil {
				return nil, err
			}
			o.Scenario.Thresholds = append(o.Scenario.Thresholds, c.Scenario.Thresholds...)
			continue next
		}
		out = append(out, c)
	}
	return out, nil
}

// observe adds what was seen of the contenders that only o has.
func (c *Comparison) observe(o *Comparison) {
	if o.Observed == nil || c.Observed == nil {
		c.Observed = cmp.Or(c.Observed, o.Observed)
		return
	}
	known := func(name string) bool {
		return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Name == name })
	}
	c.Observed = &Observed{
		Unit: c.Observed.Unit, Soon: c.Observed.Soon,
		Frames: append(c.Observed.Frames,
			slices.DeleteFunc(slices.Clone(o.Observed.Frames), func(f Frame) bool { return known(f.Contender) })...),
		Waits: append(c.Observed.Waits,
			slices.DeleteFunc(slices.Clone(o.Observed.Waits), func(w Waits) bool { return known(w.Contender) })...),
		Decisions: append(c.Observed.Decisions,
			slices.DeleteFunc(slices.Clone(o.Observed.Decisions), func(d Decision) bool { return known(d.Contender) })...),
	}
}

// add adds results of the same episodes.
func (c *Comparison) add(results []Result) error {
	for _, r := range results {
		known := false
		for _, o := range c.Results {
			if o.Name != r.Name {
				continue
			}
			if !reflect.DeepEqual(o.Outcomes, r.Outcomes) {
				return fmt.Errorf("%s: two files have different outcomes of %s: give one of them another name", c.Scenario.Name, r.Name)
			}
			known = true
		}
		if !known {
			c.Results = append(c.Results, r)
		}
	}
	return nil
}

// WriteCSV writes the outcomes of several comparisons as one CSV table with a header and a row for each scenario, policy and seed. Figures
// are not rounded.
func WriteCSV(w io.Writer, comparisons []*Comparison) error {
	metrics := Metrics
	for _, c := range comparisons {
		if all := c.metrics(); len(all) > len(metrics) {
			metrics = all
		}
	}
	rows := [][]string{slices.Concat([]string{"scenario", "policy", "seed"}, MetricNames(metrics), []string{"arrived", "placed", "nodes"})}
	for _, c := range comparisons {
		rows = append(rows, c.Rows([]string{c.Scenario.Name}, func(o sim.Outcome) [][]string {
			return [][]string{append(figures(o, metrics...), strconv.Itoa(o.Arrived), strconv.Itoa(o.Placed), strconv.Itoa(o.Nodes))}
		})...)
	}
	return WriteRows(w, rows)
}

// Rows returns rows for each policy and seed: labels, the policy's name, the seed, and the cells of the outcome.
func (c *Comparison) Rows(labels []string, cells func(sim.Outcome) [][]string) (rows [][]string) {
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			for _, row := range cells(o) {
				rows = append(rows, slices.Concat(labels, []string{r.Name, strconv.FormatUint(c.Seeds[i], 10)}, row))
			}
		}
	}
	return rows
}

// figures returns metrics of an outcome with all digits.
func figures(o sim.Outcome, metrics ...Metric) (out []string) {
	for _, m := range metrics {
		out = append(out, Exact(m.Of(o)))
	}
	return out
}

// Exact writes a number with all digits.
func Exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// WriteRows writes a CSV.
func WriteRows(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}
