package figure

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot/font"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
)

// Headline draws a row for each row of h that has a relative difference, the first on top: the network's
// objective over time relative to the baseline's, in %, as a square with its 95% interval as a bar. The dashed
// line is where both are equal; the network is ahead on its left.
func Headline(h headline.Headline) ([]byte, error) {
	p := newPlot()
	p.X.Label.Text = "objective over time, best network minus best policy without a network, %"
	rows := slices.DeleteFunc(slices.Clone(h.Rows), func(r headline.Row) bool { return r.Difference.Relative == nil })
	if len(rows) == 0 {
		return nil, fmt.Errorf("draw the verdicts: no comparison has a baseline and a network")
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		at := len(rows) - 1 - i
		names[at] = r.Scenario
		percent := 100 * *r.Difference.Relative
		unit := 1.0
		if r.Difference.Mean != 0 {
			unit = percent / r.Difference.Mean
		}
		v := eval.Interval{Mean: percent, Low: unit * r.Difference.Low, High: unit * r.Difference.High}
		if err := meanBar(p, v, float64(at)); err != nil {
			return nil, err
		}
	}
	if err := baseline(p, 0, len(rows)); err != nil {
		return nil, err
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	return svg("the verdicts", 2*panelWidth, margins+rowHeight*font.Length(len(rows)), p.Draw)
}
