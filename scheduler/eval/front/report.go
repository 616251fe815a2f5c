package front

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
)

// WriteTable writes a table for each mix, for a terminal or as Markdown.
func (f *Front) WriteTable(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	a, c := f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name()
	rows, comparisons := f.Rows()
	p.Printf("%s: %s against %s, means over time on %d paired seeds (%d to %d), less is better. The difference is in the mix's cost, from\n"+
		"the first policy made for that mix, with its 95%% interval, in %% of that policy's cost, and in %% of the range of all policies' costs.\n%s\n",
		f.Plan.Scenario.Name, a, c, len(f.Plan.Seeds),
		f.Plan.Seeds[0], f.Plan.Seeds[len(f.Plan.Seeds)-1], eval.Signs.Rule(len(f.Plan.Seeds), comparisons))
	title := "\n%s\n\n"
	if markdown {
		title = "\n### %s\n\n"
	}
	for _, m := range f.Plan.Mixes {
		p.Printf(title, m.Name())
		table := [][]string{f.columns()}
		for _, r := range rows[m.Name()] {
			table = append(table, r.cells())
		}
		p.Table(table)
	}
	return p.Write(w)
}

// columns returns the header of the table of a mix.
func (f *Front) columns() []string {
	return []string{
		"policy", f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name(), "mix", "difference", "95% interval", "relative", "of the range", "adjusted p",
		"unscheduled",
	}
}

func (r Row) cells() []string {
	d, ofRange := &r.Difference, fmt.Sprintf("%+.1f%%", 100*r.ofRange)
	if r.reference == "" {
		d, ofRange = nil, ""
	}
	return slices.Concat([]string{r.label(), number(stat.Mean(r.Costs[0], nil)), number(stat.Mean(r.Costs[1], nil)), number(r.Cost)},
		d.Cells(4, "difference", "95% interval", "relative"), []string{ofRange}, d.Cells(4, "adjusted p"), []string{fmt.Sprintf("%.1f", r.Unscheduled())})
}

func number(v float64) string { return fmt.Sprintf("%.4f", v) }

// row is a Row in JSON.
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

// WriteJSON writes every row, with the costs of each seed.
func (f *Front) WriteJSON(w io.Writer) error {
	out := struct {
		Scenario string    `json:"scenario"`
		Terms    [2]string `json:"terms"`
		Seeds    []uint64  `json:"seeds"`
		Rows     []row     `json:"rows"`
	}{Scenario: f.Plan.Scenario.Name, Terms: [2]string{f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name()}, Seeds: f.Plan.Seeds}
	rows, _ := f.Rows()
	for _, m := range f.Plan.Mixes {
		for _, r := range rows[m.Name()] {
			x := row{
				Mix: m.Name(), Policy: r.Name, Group: r.Group, Costs: r.Costs, Cost: r.Cost, Unscheduled: r.Unscheduled(), Reference: r.reference,
				OfRange: r.ofRange,
				Means:   [2]float64{stat.Mean(r.Costs[0], nil), stat.Mean(r.Costs[1], nil)},
			}
			if r.reference != "" {
				x.Difference, x.Relative, x.AdjustedP = &r.Difference.Interval, r.Difference.Relative, &r.Difference.Adjusted
			}
			out.Rows = append(out.Rows, x)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// Lines returns the means of each group's points, for the figure.
func (f *Front) Lines() (names []string, points map[string][]Point) {
	points = map[string][]Point{}
	for _, p := range f.Points {
		name := string(p.Group)
		if p.Group == Conditioned || p.Group == Single {
			name = p.Name
		}
		if p.Group == Single {
			name = string(Single)
		}
		if points[name] == nil {
			names = append(names, name)
		}
		points[name] = append(points[name], p)
	}
	return names, points
}
