package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/learningcurve"
)

// learningScreen shows how the profiles of a scheduler learn, each figure as a curve over time.
type learningScreen struct{ list[learningCurve] }

// learningCurve is a curve of a profile.
type learningCurve struct {
	profile string // empty if only one profile learns
	learningcurve.Curve
}

func (l *learningCurve) name() string {
	return state.Printable(strings.TrimPrefix(l.profile+" "+l.Name, " "))
}

func newLearningScreen() *learningScreen {
	s := &learningScreen{}
	s.list = list[learningCurve]{
		about: description{
			name: "learning", open: bind("t", "how the scheduler learns", "t"),
			notes: []note{{title: "Learning", lines: []string{
				"  curves of a scheduler with --learn and of its trainer, the newest at the right",
				"  LOW, HIGH   the ends of the curve's scale; of several samples in a cell, their mean",
			}}},
		},
		ask: state.Ask{Learning: true}, sorted: "newest at the right", noun: "figure", bare: true,
		id: (*learningCurve).name, rows: learningCurves,
		texts:   func(l *learningCurve) []string { return []string{l.name()} },
		above:   func(c *canvas) []string { return []string{s.summary(c), s.explained(c)} },
		columns: curveColumns,
		none: func(c *canvas) string {
			if c.details.LearningErr != nil {
				return state.Printable(hintOf(c.details.LearningErr))
			}
			return "no profile of this scheduler learns; rungnn --learn does"
		},
	}
	return s
}

// curveColumns are the columns of the curves: three figures, and the curve in the rest of the window.
func curveColumns(c *canvas) []column[learningCurve] {
	name := max(18, c.width/5)
	room := max(c.width-name-32, c.width*3/8, 1)
	scale := func(pick func(low, high float64) float64) func(*learningCurve) string {
		return func(l *learningCurve) string {
			_, low, high := binned(l.Values, room)
			_, known := l.Values.Last()
			return number(pick(low, high), known)
		}
	}
	return []column[learningCurve]{
		{title: "FIGURE", most: name, cell: (*learningCurve).name},
		{title: "NOW", right: true, cell: func(l *learningCurve) string { return number(l.Values.Last()) }},
		{title: "LOW", right: true, extra: 1, cell: scale(func(low, _ float64) float64 { return low })},
		{title: "HIGH", right: true, extra: 1, cell: scale(func(_, high float64) float64 { return high })},
		{title: span(c.details.Learning.Times), right: true, width: room, draw: func(l *learningCurve) string {
			points, low, high := binned(l.Values, room)
			return c.st.Good.Render(c.st.fitRight(curve(points, low, high), room))
		}},
	}
}

func learningCurves(c *canvas) (all []learningCurve) {
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
	return all
}

// summary counts the samples that every profile has learned from, or explains why nothing newer is known.
func (s *learningScreen) summary(c *canvas) string {
	parts := c.oneServer()
	if err := c.details.LearningErr; err != nil {
		return c.st.Fit(c.st.Join(append(parts, c.st.Warn.Render(state.Printable(err.Error()))), c.width), c.width)
	}
	samples := &c.details.Learning
	for _, profile := range samples.Names() {
		count := func(name string) string {
			v, _ := samples.Last(profile, name)
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		parts = append(parts, c.st.Bold.Render(state.Printable(profile))+" "+count(learningcurve.Sent)+" placements")
		if samples.Reported(profile) {
			parts = append(parts, count(learningcurve.Updates)+" updates",
				"guard passed "+count(learningcurve.Passed)+", refused "+count(learningcurve.Refused))
		} else {
			parts = append(parts, "no report of the trainer yet")
		}
		for _, bad := range []struct{ name, says string }{{learningcurve.Dropped, "dropped "}, {learningcurve.Restarts, "trainer restarts "}} {
			if v, _ := samples.Last(profile, bad.name); v > 0 {
				parts = append(parts, c.st.Warn.Render(bad.says+count(bad.name)))
			}
		}
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}

// oneServer names the scheduler that a screen of one scheduler shows, if there are others.
func (c *canvas) oneServer() []string {
	if len(c.servers) < 2 {
		return nil
	}
	return []string{c.st.Accent.Render(fmt.Sprintf("%s (o: next of %d)", c.servers[c.server], len(c.servers)))}
}

// explained describes the chosen figure.
func (s *learningScreen) explained(c *canvas) string {
	if c.cursor >= len(s.shown) {
		return ""
	}
	l := &s.shown[c.cursor]
	return c.st.Dim.Render(c.st.Fit(l.name()+": "+l.About, c.width))
}

// span returns the time that the curves cover.
func span(times []int64) string {
	if len(times) == 0 {
		return ""
	}
	return "LAST " + short(time.Duration(times[len(times)-1]-times[0])*time.Second)
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
func binned(values []float64, n int) (cells []float64, low, high float64) {
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

// curve draws values from low to high as columns of signs. A value that is not known is a space; low is the lowest sign.
func curve(values []float64, low, high float64) string {
	var line strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line.WriteByte(' ')
		case high > low:
			line.WriteString(heatSigns[int((v-low)/(high-low)*float64(len(heatSigns)-1)+0.5)])
		default:
			line.WriteString(heatSigns[0])
		}
	}
	return line.String()
}
