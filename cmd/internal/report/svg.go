package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// drawing is an SVG in the making. Text is escaped. Colours are classes of style.css, so that they follow the
// reader's colour scheme.
type drawing struct {
	width, height float64
	body          strings.Builder
}

func newDrawing(width, height float64) *drawing { return &drawing{width: width, height: height} }

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.body, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, pixel(x1), pixel(y1), pixel(x2), pixel(y2))
}

func (d *drawing) dot(class string, x, y, r float64) {
	fmt.Fprintf(&d.body, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, pixel(x), pixel(y), pixel(r))
}

// box is a rectangle with a tooltip, which may be empty.
func (d *drawing) box(class string, at [4]float64, tip string) {
	fmt.Fprintf(&d.body, `<rect class="%s" x="%s" y="%s" width="%s" height="%s">`, class, pixel(at[0]), pixel(at[1]),
		pixel(at[2]), pixel(at[3]))
	if tip != "" {
		fmt.Fprintf(&d.body, `<title>%s</title>`, html.EscapeString(tip))
	}
	d.body.WriteString(`</rect>`)
}

// text draws a text. class determines its anchor.
func (d *drawing) text(class string, x, y float64, s string) {
	fmt.Fprintf(&d.body, `<text class="%s" x="%s" y="%s">%s</text>`, class, pixel(x), pixel(y), html.EscapeString(s))
}

// path draws a line through points.
func (d *drawing) path(class string, points [][2]float64) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(&d.body, `<path class="%s" d="M`, class)
	for i, p := range points {
		if i > 0 {
			d.body.WriteByte('L')
		}
		d.body.WriteString(pixel(p[0]) + " " + pixel(p[1]))
	}
	d.body.WriteString(`"/>`)
}

// html returns the SVG with a label for readers who do not see it.
func (d *drawing) html(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="chart" role="img" aria-label="%s" viewBox="0 0 %s %s">%s</svg>`,
		html.EscapeString(label), pixel(d.width), pixel(d.height), d.body.String()))
}

// pixel formats a coordinate with one digit after the point.
func pixel(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", math.Min(math.Max(v, -1e5), 1e5)), ".0")
}

// axis maps values to coordinates.
type axis struct{ low, high, from, to float64 }

func (a axis) at(v float64) float64 {
	if a.high == a.low {
		return (a.from + a.to) / 2
	}
	return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from)
}

// span returns an axis that covers the values, with a margin.
func span(values []float64, from, to float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), from, to}
	for _, v := range values {
		a.low, a.high = math.Min(a.low, v), math.Max(a.high, v)
	}
	if math.IsInf(a.low, 0) {
		a.low, a.high = 0, 1
	}
	margin := cmp.Or((a.high-a.low)*0.04, math.Max(math.Abs(a.high)*0.1, 0.5))
	return axis{a.low - margin, a.high + margin, from, to}
}

// series is the class of the colour of a contender.
func series(i int) string { return fmt.Sprintf("s%d", i%8) }

// clip shortens a name for a label.
func clip(name string, runes int) string {
	r := []rune(name)
	if len(r) <= runes {
		return name
	}
	return string(r[:runes-1]) + "…"
}
