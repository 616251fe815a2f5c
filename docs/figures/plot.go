package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plot draws figures of a data file into docs/results/plots/OUT.svg:
//
//	<!-- generated: plot openb.csv out=openb-curve section=curve policy=fgd,gpu-gnn title="GPUs allocated" -->
//
// It chooses rows as a table does. Optional:
//
//	kind=lines         a curve with intervals for each lines=policy, over x=at or over the last number in x=scenario
//	kind=panels        the same in a small picture of its own for each rows=scenario
//	kind=dots          a row for each rows=scenario: a mark with its interval for each lines=policy; a dashed line at 0
//	kind=front         a point for each policy: x=METRIC, y=METRIC; below=POLICIES have their names under their points
//	show=percent       differences in percent of the other policy's mean (dots)
//	xlabel=, ylabel=   the labels of the axes
//	from=90 to=98      the range of the axis of values (lines, dots)
//	legend=left        the place of the legend: right (the default), left, bottom, bottom-left, none
//	names=             as for table
func (r request) plot(chosen []row) (svg []byte, err error) {
	var canvas *vgsvg.Canvas
	if r.setting("kind", "") == "panels" {
		canvas, err = r.panels(chosen)
	} else {
		canvas, err = r.figure(chosen)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return b.Bytes(), err
}

// empty returns a plot without data.
func (r request) empty(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.Legend.TextStyle.Font,
		&p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Label.TextStyle.Font, &p.Y.Tick.Label.Font,
	} {
		f.Variant = "Sans"
	}
	legend := r.setting("legend", "right")
	p.Legend.Top, p.Legend.Left = !strings.HasPrefix(legend, "bottom"), strings.HasSuffix(legend, "left")
	p.X.Label.Text, p.Y.Label.Text = r.setting("xlabel", ""), r.setting("ylabel", "")
	return p
}

// figure draws the plot that the request asks for.
func (r request) figure(chosen []row) (*vgsvg.Canvas, error) {
	p := r.empty(r.setting("title", ""))
	width, height := 15*vg.Centimeter, 9*vg.Centimeter
	series := r.keys(chosen, []string{r.setting("lines", "policy")})
	var err error
	switch r.setting("kind", "lines") {
	case "dots":
		rows := r.keys(chosen, []string{r.setting("rows", "scenario")})
		height = vg.Length(2.6+0.22*float64(len(rows)*(1+len(series)))) * vg.Centimeter
		err = r.dots(p, chosen, series, rows)
	case "front":
		err = r.front(p, chosen)
	default:
		err = r.curves(p, chosen, series)
	}
	if r.setting("legend", "") == "none" {
		p.Legend = plot.NewLegend()
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	p.Draw(draw.Crop(draw.New(canvas), vg.Millimeter, -4*vg.Millimeter, vg.Millimeter, -2*vg.Millimeter))
	return canvas, err
}

// panels draws the curves of each value of rows=scenario into a small plot, four in a line.
func (r request) panels(chosen []row) (*vgsvg.Canvas, error) {
	const across = 4
	field := r.setting("rows", "scenario")
	var lines [][]*plot.Plot
	for i, name := range r.keys(chosen, []string{field}) {
		own := slices.DeleteFunc(slices.Clone(chosen), func(c row) bool { return c[field] != name })
		p := r.empty(r.name(name))
		if err := r.curves(p, own, r.keys(own, []string{r.setting("lines", "policy")})); err != nil {
			return nil, err
		}
		p.Legend = plot.NewLegend()
		p.X.Tick.Marker, p.Y.Tick.Marker = few{}, few{}
		if i%across == 0 {
			lines = append(lines, make([]*plot.Plot, across))
		}
		lines[i/across][i%across] = p
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(across*5*vg.Centimeter, vg.Length(len(lines))*4*vg.Centimeter))
	tiles := draw.Tiles{Rows: len(lines), Cols: across, PadX: 4 * vg.Millimeter, PadY: 4 * vg.Millimeter, PadRight: 4 * vg.Millimeter,
		PadTop: vg.Millimeter}
	for i, areas := range plot.Align(lines, tiles, draw.New(canvas)) {
		for k, area := range areas {
			if p := lines[i][k]; p != nil {
				p.Draw(area)
			}
		}
	}
	return canvas, nil
}

// few marks the two ends of an axis, thousands as 10k.
type few struct{}

// Ticks implements plot.Ticker.
func (few) Ticks(low, high float64) (ends []plot.Tick) {
	for _, v := range []float64{low, high} {
		label := fmt.Sprintf("%.3g", v)
		if v >= 1000 {
			label = fmt.Sprintf("%.0fk", v/1000)
		}
		ends = append(ends, plot.Tick{Value: v, Label: label})
	}
	return ends
}

// colors are the colors of the series. Most are from the palette of Okabe and Ito, which the color-blind can tell apart.
var colors = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0x44, 0x44, 0x44, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x88, 0x88, 0x33, 0xff},
}

var lastNumber = regexp.MustCompile(`[0-9.]+$`)

// line holds the points of a series with their intervals along both axes.
type line struct {
	plotter.XYs
	plotter.XErrors
	plotter.YErrors
}

// add adds a point with an interval along the axis of values: X, or Y if up is set. An empty interval is the point itself.
func (l *line) add(at plotter.XY, low, high string, up bool) {
	v := at.X
	if up {
		v = at.Y
	}
	interval := struct{ Low, High float64 }{parse(low) - v, parse(high) - v}
	if low == "" {
		interval = struct{ Low, High float64 }{}
	}
	l.XYs, l.XErrors, l.YErrors = append(l.XYs, at), append(l.XErrors, interval), append(l.YErrors, interval)
}

// curves draws a line for each series.
func (r request) curves(p *plot.Plot, chosen []row, series []string) error {
	field, x := r.setting("lines", "policy"), r.setting("x", "at")
	number := func(c row) float64 { return parse(lastNumber.FindString(c[x])) }
	chosen = slices.SortedStableFunc(slices.Values(chosen), func(a, b row) int { return cmp.Compare(number(a), number(b)) })
	for i, name := range series {
		var all line
		for _, c := range chosen {
			if c[field] == name {
				all.add(plotter.XY{X: number(c), Y: parse(c["value"])}, c["low"], c["high"], true)
			}
		}
		l, marks, err := plotter.NewLinePoints(all.XYs)
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(all)
		if err != nil {
			return err
		}
		l.Color, l.Width, bars.Color = colors[i%len(colors)], vg.Points(1.5), colors[i%len(colors)]
		marks.GlyphStyle = mark(i)
		p.Add(l, bars, marks)
		p.Legend.Add(r.name(name), l, marks)
	}
	r.limit(&p.Y)
	return nil
}

// front draws a point with a name for each policy.
func (r request) front(p *plot.Plot, chosen []row) error {
	var at, under plotter.XYLabels
	for _, policy := range r.keys(chosen, []string{"policy"}) {
		point := plotter.XY{X: math.NaN(), Y: math.NaN()}
		for _, c := range chosen {
			switch {
			case c["policy"] == policy && c["metric"] == r.setting("x", ""):
				point.X = parse(c["value"])
			case c["policy"] == policy && c["metric"] == r.setting("y", ""):
				point.Y = parse(c["value"])
			}
		}
		side := &at
		if slices.Contains(r.list("below"), policy) {
			side = &under
		}
		side.XYs, side.Labels = append(side.XYs, point), append(side.Labels, r.name(policy))
	}
	for i, points := range []plotter.XYLabels{at, under} {
		up := []vg.Length{3, -9}[i]
		if len(points.XYs) == 0 {
			continue
		}
		marks, err := plotter.NewScatter(points.XYs)
		if err != nil {
			return err
		}
		names, err := plotter.NewLabels(points)
		if err != nil {
			return err
		}
		marks.GlyphStyle, names.Offset = mark(0), vg.Point{X: vg.Points(4), Y: up}
		for i := range names.TextStyle {
			names.TextStyle[i].Font.Variant, names.TextStyle[i].Font.Size = "Sans", 9
		}
		p.Add(marks, names)
	}
	p.X.Max *= 1.25 // room for the names
	return nil
}

// mark returns the mark of the points of a series.
func mark(i int) draw.GlyphStyle {
	shapes := []draw.GlyphDrawer{
		draw.BoxGlyph{}, draw.CircleGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{},
	}
	return draw.GlyphStyle{Color: colors[i%len(colors)], Radius: vg.Points(2.5), Shape: shapes[i%len(shapes)]}
}

// dots draws a mark with its interval for each series in each row, the first row on top.
func (r request) dots(p *plot.Plot, chosen []row, series, rows []string) error {
	percent := r.setting("show", "value") == "percent"
	var names []string
	for i := range rows {
		names = append(names, r.name(rows[len(rows)-1-i]))
	}
	for i, name := range series {
		var all line
		for _, c := range chosen {
			k := slices.Index(rows, c[r.setting("rows", "scenario")])
			if c[r.setting("lines", "policy")] != name || k < 0 {
				continue
			}
			v, low, high := c["value"], c["low"], c["high"]
			if percent {
				low, high = r.percentInterval(c)
				v = c["percent"]
			}
			y := float64(len(rows)-1-k) + 0.5 - (float64(i)+0.5)/float64(len(series))*0.8 - 0.1
			all.add(plotter.XY{X: parse(v), Y: y}, low, high, false)
		}
		marks, err := plotter.NewScatter(all.XYs)
		if err != nil {
			return err
		}
		bars, err := plotter.NewXErrorBars(all)
		if err != nil {
			return err
		}
		bars.Color, bars.Width = colors[i%len(colors)], vg.Points(1.2)
		marks.GlyphStyle = mark(i)
		p.Add(bars, marks)
		p.Legend.Add(r.name(name), marks)
	}
	zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: -0.6}, {X: 0, Y: float64(len(rows)) - 0.4}})
	if err != nil {
		return err
	}
	zero.LineStyle = draw.LineStyle{Color: color.Gray{0x88}, Width: vg.Points(0.75), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
	p.Add(zero)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	r.limit(&p.X)
	return nil
}

// limit sets the range that the axis of values shows.
func (r request) limit(axis *plot.Axis) {
	if from := r.setting("from", ""); from != "" {
		axis.Min = parse(from)
	}
	if to := r.setting("to", ""); to != "" {
		axis.Max = parse(to)
	}
}
