package front

import (
	"encoding/json"
	"fmt"
	"io"

	"gnnsched/scheduler/eval"
)

// Write writes a table for each mix, for a terminal or as Markdown.
func (f *Front) Write(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	seeds := f.Plan.Seeds
	all, comparisons := f.mixes()
	p.Printf("%s: %s against %s, means over time on %d paired seeds (%d to %d), less is better. The difference is in the mix's cost, from\n"+
		"the first policy made for that mix, with its 95%% interval, in %% of that policy's cost, and in %% of the range of all "+
		"policies' costs.\n%s\n",
		f.Plan.Scenario.Name, f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name(), len(seeds), seeds[0], seeds[len(seeds)-1],
		eval.Signs.Rule(len(seeds), comparisons))
	title := "\n%s\n\n"
	if markdown {
		title = "\n### %s\n\n"
	}
	for _, a := range all {
		p.Printf(title, a.mix)
		p.Table(f.table(a))
	}
	return p.Write(w)
}

// table returns the rows of a mix.
func (f *Front) table(a atMix) [][]string {
	var cells []eval.Cells
	for _, x := range f.columns(a)[1:3] {
		cells = append(cells, eval.Cells{Title: x.Title, Of: x.Cell})
	}
	cells = append(cells, eval.Cells{Title: "mix", Of: a.column().Cell})
	cells = append(cells, eval.Compared(a.differences, overTime.Digits, "difference", "95% interval", "relative")...)
	cells = append(cells, eval.Cells{Title: "of the range", Of: func(i int) string {
		if a.differences[i] == nil {
			return ""
		}
		return fmt.Sprintf("%+.1f%%", 100*a.ofRange(i))
	}})
	cells = append(cells, eval.Compared(a.differences, overTime.Digits, "adjusted p")...)
	return a.cost.Table(append(cells, a.cost.Means(eval.Unscheduled)...)...)
}

// row is an entrant at a mix in JSON.
type row struct {
	Mix         string         `json:"mix"`
	Policy      string         `json:"policy"`
	Group       Group          `json:"group"`
	Costs       [2][]float64   `json:"costs"` // of the terms, by seed
	Means       [2]float64     `json:"means"`
	Cost        float64        `json:"cost"`        // of the mix
	Unscheduled float64        `json:"unscheduled"` // mean
	Reference   string         `json:"reference,omitempty"`
	Difference  *eval.Interval `json:"difference,omitempty"`
	Relative    *float64       `json:"relative,omitempty"`
	OfRange     float64        `json:"ofRange"`
	AdjustedP   *float64       `json:"adjustedP,omitempty"`
}

// MarshalJSON implements json.Marshaler with every row and the costs of each seed.
func (f *Front) MarshalJSON() ([]byte, error) {
	out := struct {
		Scenario string    `json:"scenario"`
		Terms    [2]string `json:"terms"`
		Seeds    []uint64  `json:"seeds"`
		Rows     []row     `json:"rows"`
	}{Scenario: f.Plan.Scenario.Name, Terms: [2]string{f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name()}, Seeds: f.Plan.Seeds}
	all, _ := f.mixes()
	for _, a := range all {
		for i, r := range a.cost.Results {
			x := row{
				Mix: a.mix, Policy: a.entrants[i].Name, Group: a.entrants[i].Group, Cost: r.Mean(overTime), Unscheduled: r.Mean(eval.Unscheduled),
				OfRange: a.ofRange(i),
			}
			for k, term := range a.terms {
				x.Costs[k], x.Means[k] = term.Results[i].Values(overTime), term.Results[i].Mean(overTime)
			}
			if d := a.differences[i]; d != nil {
				x.Reference, x.Difference, x.Relative, x.AdjustedP = a.entrants[a.cost.Baseline].Name, &d.Interval, d.Relative, &d.Adjusted
			}
			out.Rows = append(out.Rows, x)
		}
	}
	return json.Marshal(out)
}
