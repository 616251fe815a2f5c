package figure

import (
	"bytes"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
)

// Headline draws a row for each row of h that has a relative difference, the first on top: the network's
// objective over time relative to the baseline's, in %, as a square with its 95% interval as a bar. The dashed
// line is where both are equal; the network is ahead on its left.
func Headline(h headline.Headline) ([]byte, error) {
	p := plot.New()
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		f.Variant = "Sans"
	}
	p.X.Label.Text = "objective over time, best network minus best policy without a network, %"
	var rows []headline.Row
	for _, r := range h.Rows {
		if r.Difference.Relative != nil {
			rows = append(rows, r)
		}
	}
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
	width, height := 2*panelWidth, margins+rowHeight*font.Length(len(rows))
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw the verdicts: %w", err)
	}
	return b.Bytes(), nil
}
