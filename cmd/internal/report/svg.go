package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
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

// number formats a value with a number of digits after the point, and commas between thousands.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', min(max(digits, 0), 9), 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	if v < 0 && strings.Trim(text, "0.") != "" {
		return "−" + whole
	}
	return whole
}

// signed is number with a plus sign where the value is positive.
func signed(v float64, digits int) string {
	text := number(v, digits)
	if v > 0 && strings.Trim(text, "0.,") != "" {
		return "+" + text
	}
	return text
}

// short formats a value of any size with about three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v) && a < 1e6:
		return number(v, 0)
	case a >= 1:
		return strings.TrimSuffix(strings.TrimRight(number(v, 2), "0"), ".")
	case a >= 0.001:
		return strings.TrimRight(number(v, 4), "0")
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// percent formats a fraction.
func percent(v float64) string { return number(100*v, 0) + " %" }

// ticks returns about n round values that cover the range from low to high.
func ticks(low, high float64, n int) []float64 {
	span := high - low
	if !(span > 0) || math.IsInf(span, 0) {
		return []float64{low}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if span/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9*span && len(out) < 3*n; i++ {
		out = append(out, i*step)
	}
	return out
}
