package report

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
)

// alphabet has the characters of levels: character i stands for a load of i·step. The last one stands for an absent node. None of them
// needs an escape in JSON or HTML.
const (
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	step     = 0.02
	absent   = len(alphabet) - 1
)

// level returns the character of a load.
func level(v float64) byte {
	if math.IsNaN(v) {
		return alphabet[absent]
	}
	return alphabet[int(math.Round(min(max(v, 0), float64(absent-1)*step)/step))]
}

// resources are the layers of a heat map.
var resources = []struct {
	kind, title string
	of          func(eval.Node) float64
}{
	{"cpu", "CPU", func(n eval.Node) float64 { return n.CPU }},
	{"memory", "memory", func(n eval.Node) float64 { return n.Memory }},
	{"gpu", "GPU", func(n eval.Node) float64 { return n.GPU }},
}

// film is the frames of one contender on a grid of times and nodes.
type film struct {
	contender string
	frames    []eval.Frame
	groups    [][]string // names of the nodes in each row, one unless nodes are grouped
}

// heatOf returns the heat maps of a scenario, with at most cells loads in all of them together.
func heatOf(id string, s Scenario, films []film, cells int) (*heat, cluster) {
	h := &heat{ID: id, Unit: s.Observed.Unit}
	for _, r := range resources {
		if slices.ContainsFunc(films, func(f film) bool { return f.has(r.of) }) {
			h.Kinds = append(h.Kinds, r.kind)
		}
	}
	if len(h.Kinds) == 0 {
		h.Kinds = []string{"cpu"}
	}
	share := cells / max(len(films)*len(h.Kinds), 1)
	h.Frames, h.Notes = shrink(films, share)
	at := times(films, h.Frames)
	c := cluster{Unit: s.Observed.Unit, Maps: []layers{}}
	c.At = append(c.At, each.Map(at, short)...)
	h.From, h.Until = c.At[0], c.At[len(c.At)-1]
	for i, f := range films {
		l := layers{Contender: f.contender, Levels: map[string][]string{}}
		l.Nodes = append(l.Nodes, each.Map(f.groups, groupName)...)
		m := heatMap{Contender: f.contender, Index: i, Nodes: len(f.groups)}
		shown := f.at(at)
		l.Waiting = append(l.Waiting, each.Map(shown, func(frame eval.Frame) int { return frame.Waiting })...)
		for _, r := range resources {
			if slices.Contains(h.Kinds, r.kind) {
				l.Levels[r.kind] = f.levels(shown, r.of)
				alt := fmt.Sprintf("%s of each node over time with %s: %s", r.title, f.contender, f.words(shown, r.of))
				m.Images = append(m.Images, picture(r.kind, alt, l.Levels[r.kind], len(f.groups)))
			}
		}
		c.Maps, h.Maps = append(c.Maps, l), append(h.Maps, m)
	}
	h.Rows = timeTable(films, at, s.Observed.Unit)
	return h, c
}

// has tells whether any node has a load of the resource.
func (f film) has(of func(eval.Node) float64) bool {
	return slices.ContainsFunc(f.frames, func(x eval.Frame) bool {
		return slices.ContainsFunc(x.Nodes, func(n eval.Node) bool { return of(n) > 0 })
	})
}

// Bounds of a heat map.
const (
	mostSteps  = 120
	leastSteps = 12
	mostRows   = 2000 // of nodes
)

// shrink sets the groups of the films, so that no film has more than share loads, and returns the number of steps
// in time and what was left out.
func shrink(films []film, share int) (steps int, notes []string) {
	most, frames := 1, 1
	for i := range films {
		seen := map[string]bool{}
		var names []string
		for _, f := range films[i].frames {
			for _, n := range f.Nodes {
				if !seen[n.Name] {
					seen[n.Name] = true
					names = append(names, n.Name)
				}
			}
		}
		slices.SortFunc(names, state.CompareNatural)
		films[i].groups = make([][]string, len(names))
		for k, n := range names {
			films[i].groups[k] = []string{n}
		}
		most, frames = max(most, len(names)), max(frames, len(films[i].frames))
	}
	steps = min(frames, mostSteps, max(share/most, leastSteps))
	if steps < frames {
		notes = append(notes, fmt.Sprintf("The heat maps show %d of %d samples in time.", steps, frames))
	}
	each := max((most*steps+share-1)/max(share, 1), (most+mostRows-1)/mostRows, 1)
	if each == 1 {
		return steps, notes
	}
	for i := range films {
		var groups [][]string
		for k := 0; k < len(films[i].groups); k += each {
			groups = append(groups, slices.Concat(films[i].groups[k:min(k+each, len(films[i].groups))]...))
		}
		films[i].groups = groups
	}
	return steps, append(notes, fmt.Sprintf("Each row of the heat maps is the mean of %d nodes.", each))
}

func groupName(g []string) string {
	if len(g) == 1 {
		return g[0]
	}
	return g[0] + " … " + g[len(g)-1]
}

// times returns steps times from the first frame of all films to the last.
func times(films []film, steps int) []float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range films {
		for _, x := range f.frames {
			low, high = min(low, x.At), max(high, x.At)
		}
	}
	out := make([]float64, steps)
	for i := range out {
		out[i] = low
		if steps > 1 {
			out[i] += (high - low) * float64(i) / float64(steps-1)
		}
	}
	out[steps-1] = high
	return out
}

// at returns, for each time, the last frame that is not later; the first one before that.
func (f film) at(times []float64) []eval.Frame {
	out := make([]eval.Frame, len(times))
	k := 0
	for i, t := range times {
		for k+1 < len(f.frames) && f.frames[k+1].At <= t {
			k++
		}
		out[i] = f.frames[k]
	}
	return out
}

// levels returns the loads of the film's rows in each frame.
func (f film) levels(shown []eval.Frame, of func(eval.Node) float64) []string {
	out := make([]string, len(shown))
	for i, x := range shown {
		load := make(map[string]float64, len(x.Nodes))
		for _, n := range x.Nodes {
			load[n.Name] = of(n)
		}
		line := make([]byte, len(f.groups))
		for k, g := range f.groups {
			sum, count := 0.0, 0
			for _, name := range g {
				if v, there := load[name]; there {
					sum, count = sum+v, count+1
				}
			}
			line[k] = level(sum / float64(count)) // NaN if none is there
		}
		out[i] = string(line)
	}
	return out
}

// words describes the loads for readers who do not see the picture.
func (f film) words(shown []eval.Frame, of func(eval.Node) float64) string {
	last := shown[len(shown)-1]
	if len(last.Nodes) == 0 {
		return "no nodes at the end"
	}
	loads := each.Map(last.Nodes, of)
	slices.Sort(loads)
	return fmt.Sprintf("at the end %d nodes, the median at %s, from %s to %s", len(loads), percent(quantile(loads, 0.5)), percent(loads[0]),
		percent(loads[len(loads)-1]))
}

// scaleColors are points of the colour map viridis (van der Walt and Smith 2015), from 0 to 100 % in equal steps. It
// is even to the eye, and readable with any colour vision.
var scaleColors = []color.NRGBA{
	{0x44, 0x01, 0x54, 255}, {0x48, 0x28, 0x78, 255}, {0x3e, 0x49, 0x89, 255}, {0x31, 0x68, 0x8e, 255}, {0x26, 0x82, 0x8e, 255},
	{0x1f, 0x9e, 0x89, 255}, {0x35, 0xb7, 0x79, 255}, {0x6e, 0xce, 0x58, 255}, {0xb5, 0xde, 0x2b, 255}, {0xfd, 0xe7, 0x25, 255},
}

// above is the colour of loads over 100 %.
var above = color.NRGBA{0xd5, 0x2b, 0x1e, 255}

// palette has the colour of each character of the alphabet.
func palette() color.Palette {
	out := make(color.Palette, len(alphabet))
	for i := range out {
		v := float64(i) * step
		switch {
		case i == absent:
			out[i] = color.NRGBA{}
		case v > 1+step/2:
			out[i] = above
		default:
			out[i] = blend(v * float64(len(scaleColors)-1))
		}
	}
	return out
}

// blend returns the colour at a place between the points of the scale.
func blend(at float64) color.NRGBA {
	i := min(int(at), len(scaleColors)-2)
	f := at - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	a, b := scaleColors[i], scaleColors[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// mostPixels bounds the height of a picture. Browsers would paint further rows over each other anyway.
const mostPixels = 1024

// picture paints levels: time to the right, nodes from top to bottom.
func picture(kind, alt string, levels []string, rows int) (out imageData) {
	height := max(min(rows, mostPixels), 1)
	img := image.NewPaletted(image.Rect(0, 0, len(levels), height), palette())
	for x, line := range levels {
		for y := range height {
			c := absent
			if rows > 0 {
				c = strings.IndexByte(alphabet, line[y*rows/height])
			}
			img.SetColorIndex(x, y, uint8(c))
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img); err != nil {
		panic(err) // a buffer takes everything
	}
	return imageData{Kind: kind, Alt: alt, URL: template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))}
}

// timeTable shows the cluster at a few times.
func timeTable(films []film, at []float64, unit string) *table {
	const shown = 9
	t := &table{Caption: "The cluster over time in figures", Columns: []string{
		"time in " + cmp.Or(unit, "seconds"), "with", "CPU", "memory", "imbalance", "nodes in use", "fullest node", "pods waiting",
	}}
	t.Numeric = []bool{true, false, true, true, true, true, false, true}
	for i := range min(shown, len(at)) {
		k := i * (len(at) - 1) / max(min(shown, len(at))-1, 1)
		for _, f := range films {
			x := f.at(at[k : k+1])[0]
			s := summarise(x)
			t.Rows = append(t.Rows, []string{
				short(at[k]), f.contender, percent(s.cpu), percent(s.memory), number(s.spread, 3), number(float64(s.used), 0), s.fullest,
				number(float64(x.Waiting), 0),
			})
		}
	}
	return t
}

// moment sums up a frame.
type moment struct {
	cpu, memory, spread float64 // means over nodes, and the standard deviation of CPU
	used                int
	fullest             string
}

func summarise(f eval.Frame) (m moment) {
	n := float64(max(len(f.Nodes), 1))
	most := -1.0
	var squares float64
	const beyond = 1e6 // any load; a file may hold anything
	for _, x := range f.Nodes {
		x.CPU, x.Memory = min(max(x.CPU, 0), beyond), min(max(x.Memory, 0), beyond)
		m.cpu, m.memory = m.cpu+x.CPU/n, m.memory+x.Memory/n
		squares += x.CPU * x.CPU / n
		if x.Pods > 0 {
			m.used++
		}
		if x.CPU > most {
			most, m.fullest = x.CPU, x.Name+", "+percent(x.CPU)
		}
	}
	m.spread = math.Sqrt(max(squares-m.cpu*m.cpu, 0))
	return m
}

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
