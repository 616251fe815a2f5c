package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/course"
)

// learningScreen shows how the profiles of a scheduler learn, each figure as a curve over time.
type learningScreen struct {
	shown []learningCurve // those that pass the filter
	total int
}

// learningCurve is a curve of a profile.
type learningCurve struct {
	profile string // empty if only one profile learns
	course.Curve
}

func (l *learningCurve) name() string {
	return state.Printable(strings.TrimPrefix(l.profile+" "+l.Name, " "))
}

func (*learningScreen) describe() description {
	return description{
		name: "learning", heading: 3, grid: true, open: bind("t", "how the scheduler learns (training)", "t"),
		notes: []note{{title: "Learning", lines: []string{
			"  curves of a scheduler with --learn and of its trainer, the newest at the right",
			"  LOW, HIGH   the ends of the curve's scale; of several samples in a cell, their mean",
		}}},
	}
}

func (*learningScreen) asks() state.Ask { return state.Ask{Learning: true} }

func (s *learningScreen) update(c *canvas, f query.Filter) {
	var all []learningCurve
	samples := &c.details.Learning
	names := samples.Names()
	for _, profile := range names {
		for _, curve := range samples.Curves(profile) {
			l := learningCurve{Curve: curve}
			if len(names) > 1 {
				l.profile = profile
			}
			all = append(all, l)
		}
	}
	s.total = len(all)
	s.shown = query.Select(f, all, func(l *learningCurve) query.Row { return query.Row{Texts: []string{l.name()}} })
}

func (*learningScreen) press(*canvas, tea.KeyPressMsg)    {}
func (*learningScreen) order(*canvas) string              { return "newest at the right" }
func (s *learningScreen) size(*canvas) (shown, total int) { return len(s.shown), s.total }
func (s *learningScreen) name(row int) string             { return s.shown[row].name() }
func (s *learningScreen) rowHeight(c *canvas) (lines int) {
	return max(1, min(c.space/max(len(s.shown), 1), highestCurve))
}
func (s *learningScreen) chosen(c *canvas) (*learningCurve, bool) {
	if c.cursor >= len(s.shown) {
		return nil, false
	}
	return &s.shown[c.cursor], true
}

func (s *learningScreen) empty(c *canvas) string {
	switch {
	case s.total > 0:
		return "no figure passes the filter"
	case c.details.LearningErr != nil:
		return state.Printable(hintOf(c.details.LearningErr))
	}
	return "no profile of this scheduler learns; rungnn --learn does"
}

// Widths of the columns, and how many lines a curve has at most.
const (
	figureWidth  = 18
	numberWidth  = 8
	highestCurve = 4
)

func (s *learningScreen) draw(c *canvas, from, to int) []string {
	name := figureWidth
	for i := range s.shown {
		name = max(name, ansi.StringWidth(s.shown[i].name()))
	}
	name = min(name, max(c.width/4, 8))
	row := func(cells ...string) string { return strings.Join(cells, c.gap()) }
	numbers := 3
	if c.width < 60 {
		numbers = 1
	}
	room := max(c.width-name-numbers*(numberWidth+len(c.gap()))-len(c.gap()), 1)
	heading := []string{c.st.fit("FIGURE", name)}
	for _, title := range []string{"NOW", "LOW", "HIGH"}[:numbers] {
		heading = append(heading, c.st.fitRight(title, numberWidth))
	}
	lines := []string{s.summary(c), s.about(c), c.st.dim.Render(row(append(heading, s.span(c, room))...))}
	if len(s.shown) == 0 {
		lines[2] = ""
	}
	height := s.rowHeight(c)
	for i := range s.shown[from:to] {
		l := &s.shown[from+i]
		points, low, high := binned(l.Values, room)
		now, known := l.Values.Last()
		cells := []string{c.st.fit(l.name(), name), c.st.bold.Render(c.st.fitRight(number(now, known), numberWidth))}
		if numbers > 1 {
			cells = append(cells, c.st.dim.Render(c.st.fitRight(number(low, known), numberWidth)), c.st.dim.Render(c.st.fitRight(number(high, known), numberWidth)))
		}
		if from+i == c.cursor {
			cells[0] = c.st.chosen.Render(cells[0])
		}
		curve := c.st.curve(points, low, high, height)
		lines = append(lines, row(append(cells, strings.Repeat(" ", room-len(points))+curve[0])...))
		for _, below := range curve[1:] {
			lines = append(lines, strings.Repeat(" ", c.width-len(points))+below)
		}
	}
	return lines
}

// summary counts what every profile has learned from, or says why nothing newer is known.
func (s *learningScreen) summary(c *canvas) string {
	if err := c.details.LearningErr; err != nil {
		return c.st.warn.Render(c.st.fit(state.Printable(err.Error()), c.width))
	}
	var parts []string
	samples := &c.details.Learning
	for _, profile := range samples.Names() {
		count := func(name string) string {
			v, _ := samples.Last(profile, name)
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		parts = append(parts, c.st.bold.Render(state.Printable(profile))+" "+count("sent")+" placements")
		if _, reported := samples.Last(profile, "read"); reported {
			parts = append(parts, count("updates")+" updates", "guard passed "+count("passed")+", refused "+count("refused"))
		} else {
			parts = append(parts, "no report of the trainer yet")
		}
		for _, bad := range []struct{ name, says string }{{"dropped", "dropped "}, {"restarts", "trainer restarts "}} {
			if v, _ := samples.Last(profile, bad.name); v > 0 {
				parts = append(parts, c.st.warn.Render(bad.says+count(bad.name)))
			}
		}
	}
	return c.st.fit(c.st.join(parts, c.width), c.width)
}

// about says what the chosen figure is.
func (s *learningScreen) about(c *canvas) string {
	l, ok := s.chosen(c)
	if !ok {
		return ""
	}
	return c.st.dim.Render(c.st.fit(l.name()+": "+l.About, c.width))
}

// span says how much time the curves cover.
func (s *learningScreen) span(c *canvas, room int) string {
	times := c.details.Learning.Times
	if len(times) == 0 {
		return ""
	}
	d := time.Duration(times[len(times)-1]-times[0]) * time.Second
	return c.st.fitRight("LAST "+short(d), room)
}

// short writes a duration in seconds without its zeros at the end: 10m instead of 10m0s, 1h instead of 1h0m0s.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// number writes a figure in few characters.
func number(v float64, known bool) string {
	switch a := math.Abs(v); {
	case !known:
		return "-"
	case a >= 1e6 || a > 0 && a < 1e-3:
		return strconv.FormatFloat(v, 'e', 1, 64)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprintf("%.3g", v)
}

// binned puts the values into at most n cells, each with the mean of its values or NaN if none is known, and returns the
// range of these means.
func binned(values course.Column, n int) (cells []float64, low, high float64) {
	per := max((len(values)+n-1)/n, 1)
	low, high = math.Inf(1), math.Inf(-1)
	first := len(values) % per // the oldest cell may have fewer, so that the others keep their values when one is added
	for at := first - per; at < len(values); at += per {
		sum, count := 0.0, 0
		for _, v := range values[max(at, 0):max(at+per, 0)] {
			if !math.IsNaN(v) {
				sum, count = sum+v, count+1
			}
		}
		if at < 0 && first == 0 {
			continue
		}
		mean := math.NaN()
		if count > 0 {
			mean = sum / float64(count)
			low, high = min(low, mean), max(high, mean)
		}
		cells = append(cells, mean)
	}
	return cells, low, high
}

// curve draws values from low to high as columns of signs, height lines from the top. A value that is not known is
// a space; low is the lowest sign.
func (st *styles) curve(values []float64, low, high float64, height int) []string {
	signs := st.heat
	if height > 1 && !st.look.Unicode {
		signs = []string{".", ":", "#"} // digits above each other could not be read
	}
	lines := make([]strings.Builder, height)
	for _, v := range values {
		steps := 0 // in which the column is drawn, from the bottom
		if !math.IsNaN(v) {
			steps = 1
			if high > low {
				steps += int((v-low)/(high-low)*float64(height*len(signs)-1) + 0.5)
			}
		}
		for i := range lines {
			of := min(max(steps-(height-1-i)*len(signs), 0), len(signs))
			if of == 0 {
				lines[i].WriteByte(' ')
			} else {
				lines[i].WriteString(signs[of-1])
			}
		}
	}
	out := make([]string, height)
	for i := range lines {
		out[i] = st.good.Render(lines[i].String())
	}
	return out
}
