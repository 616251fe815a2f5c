package figure

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"gnnsched/scheduler/eval"
)

// Sizes of a figure on the page.
const (
	panelWidth = 9 * vg.Centimeter
	rowHeight  = 0.8 * vg.Centimeter
	margins    = 2.6 * vg.Centimeter // title and axis, above and below the rows
	dotRadius  = 1.6 * vg.Millimeter / 2
)

var (
	seedColor     = color.NRGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0x70}
	meanColor     = color.NRGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	baselineColor = color.NRGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}
)

// newPlot returns a plot whose texts, but for a label of Y and the legend, have no serifs.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		f.Variant = "Sans"
	}
	return p
}

// svg returns what paint draws on a page.
func svg(what string, width, height vg.Length, paint func(page draw.Canvas)) ([]byte, error) {
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	paint(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s: %w", what, err)
	}
	return b.Bytes(), nil
}

// SVG draws two panels side by side, the objective and the unscheduled pods, with a row for each
// policy, the first on top. A row has a dot for each seed, and a square for the mean with its 95%
// interval, unless there is one sample, as a bar. A dashed line marks the mean of the baseline, the first policy.
func SVG(c *eval.Comparison) ([]byte, error) {
	var panels []*plot.Plot
	for _, m := range []eval.Metric{eval.Objective, eval.Unscheduled} {
		p, err := panel(c, m)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", c.Scenario.Name, err)
		}
		panels = append(panels, p)
	}
	panels[0].Title.Text = c.Scenario.Name
	panels[1].Title.Text = fmt.Sprintf("%d seeds", len(c.Seeds))
	if c.OneWorkload {
		panels[1].Title.Text += " of one workload"
	}
	panels[1].HideY() // the first panel names the rows
	width, height := panelWidth*vg.Length(len(panels)), margins+rowHeight*vg.Length(len(c.Results))
	tiles := draw.Tiles{
		Rows: 1, Cols: len(panels), PadX: vg.Centimeter / 2, PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter, PadTop: 2 * vg.Millimeter,
	}
	return svg(c.Scenario.Name, width, height, func(page draw.Canvas) {
		for i, area := range plot.Align([][]*plot.Plot{panels}, tiles, page)[0] {
			panels[i].Draw(area)
		}
	})
}

// panel draws one metric of every policy.
func panel(c *eval.Comparison, m eval.Metric) (*plot.Plot, error) {
	p := newPlot()
	p.X.Label.Text = m.Title
	if m.Name == eval.Objective.Name {
		p.X.Label.Text = "objective " + c.Scenario.Objective.Name()
	}
	n := len(c.Results)
	names := make([]string, n)
	for i, r := range c.Results {
		row := float64(n - 1 - i)
		names[n-1-i] = r.Name
		values := r.Values(m)
		if err := seedDots(p, values, row); err != nil {
			return nil, err
		}
		if err := meanBar(p, c.Interval(values), row); err != nil {
			return nil, err
		}
		if i == 0 {
			if err := baseline(p, r.Mean(m), n); err != nil {
				return nil, err
			}
		}
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(n)-0.4
	p.X.Min = min(p.X.Min, 0)
	return p, nil
}

// seedDots draws a dot for each value, shifted a little above or below the row so that equal values
// do not hide each other.
func seedDots(p *plot.Plot, values []float64, row float64) error {
	dots := make(plotter.XYs, len(values))
	for i, v := range values {
		dots[i] = plotter.XY{X: v, Y: row + 0.12*float64(i%5-2)}
	}
	s, err := plotter.NewScatter(dots)
	if err != nil {
		return err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: seedColor, Radius: dotRadius, Shape: draw.CircleGlyph{}}
	p.Add(s)
	return nil
}

// interval is a point with its error bar.
type interval struct {
	plotter.XYs
	plotter.XErrors
}

// meanBar draws the mean of a row with its interval.
func meanBar(p *plot.Plot, v eval.Interval, row float64) error {
	at := interval{plotter.XYs{{X: v.Mean, Y: row}}, plotter.XErrors{{Low: v.Low - v.Mean, High: v.High - v.Mean}}}
	bar, err := plotter.NewXErrorBars(at)
	if err != nil {
		return err
	}
	bar.LineStyle = draw.LineStyle{Color: meanColor, Width: vg.Points(1.5)}
	mean, err := plotter.NewScatter(at.XYs)
	if err != nil {
		return err
	}
	mean.GlyphStyle = draw.GlyphStyle{Color: meanColor, Radius: dotRadius * 1.4, Shape: draw.BoxGlyph{}}
	p.Add(bar, mean)
	return nil
}

// baseline draws the dashed line at a mean, across all rows.
func baseline(p *plot.Plot, mean float64, rows int) error {
	line, err := plotter.NewLine(plotter.XYs{{X: mean, Y: -0.6}, {X: mean, Y: float64(rows) - 0.4}})
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: baselineColor, Width: vg.Points(0.75), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
	p.Add(line)
	return nil
}
