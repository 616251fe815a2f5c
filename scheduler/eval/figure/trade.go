package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gnnsched/scheduler/eval"
)

// Line is a number of policies in a plot of two metrics. A line connects them by ascending X.
type Line struct {
	Name   string
	Points []Point
}

// Point is a policy, with the means and intervals of the two metrics.
type Point struct {
	Name string
	X, Y eval.Interval
}

// lineColors are the colors of the lines, in their order.
var lineColors = []color.NRGBA{
	baselineColor, {R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, {R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff}, {R: 0x94, G: 0x67, B: 0xbd, A: 0xff},
	{R: 0x7f, G: 0x7f, B: 0x7f, A: 0xff},
}

// Trade draws policies by two metrics, with a bar for each interval.
func Trade(title, x, y string, lines []Line) ([]byte, error) {
	p := newPlot()
	p.Y.Label.TextStyle.Font.Variant, p.Legend.TextStyle.Font.Variant = "Sans", "Sans"
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top, p.Legend.Left = false, false
	p.Add(plotter.NewGrid())
	for i, l := range lines {
		if len(l.Points) == 0 {
			continue
		}
		if err := tradeLine(p, l, lineColors[i%len(lineColors)]); err != nil {
			return nil, fmt.Errorf("draw %s: %w", title, err)
		}
	}
	return svg(title, 2*panelWidth, panelWidth*1.2, p.Draw)
}

// bars are points with both their intervals.
type bars struct {
	plotter.XYs
	plotter.XErrors
	plotter.YErrors
}

func tradeLine(p *plot.Plot, l Line, c color.NRGBA) error {
	points := slices.SortedFunc(slices.Values(l.Points), func(a, b Point) int { return cmp.Compare(a.X.Mean, b.X.Mean) })
	at := bars{make(plotter.XYs, len(points)), make(plotter.XErrors, len(points)), make(plotter.YErrors, len(points))}
	names := make([]string, len(points))
	for i, v := range points {
		at.XYs[i] = plotter.XY{X: v.X.Mean, Y: v.Y.Mean}
		at.XErrors[i].Low, at.XErrors[i].High = v.X.Low-v.X.Mean, v.X.High-v.X.Mean
		at.YErrors[i].Low, at.YErrors[i].High = v.Y.Low-v.Y.Mean, v.Y.High-v.Y.Mean
		names[i] = v.Name
	}
	line, dots, err := plotter.NewLinePoints(at.XYs)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: c, Width: vg.Points(0.75)}
	dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: dotRadius * 1.4, Shape: draw.CircleGlyph{}}
	wide, err := plotter.NewXErrorBars(at)
	if err != nil {
		return err
	}
	high, err := plotter.NewYErrorBars(at)
	if err != nil {
		return err
	}
	wide.LineStyle, high.LineStyle = line.LineStyle, line.LineStyle
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: at.XYs, Labels: names})
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(-8)}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Variant, labels.TextStyle[i].Font.Size, labels.TextStyle[i].Color = "Sans", vg.Points(7), c
	}
	p.Add(line, wide, high, dots, labels)
	p.Legend.Add(l.Name, line, dots)
	return nil
}
