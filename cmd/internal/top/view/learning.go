package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/course"
)

// learningScreen shows how the profiles of a scheduler learn, each figure as a curve over time.
type learningScreen struct{ list[learningCurve] }

// learningCurve is a curve of a profile.
type learningCurve struct {
	profile string // empty if only one profile learns
	course.Curve
}

func (l *learningCurve) name() string {
	return state.Printable(strings.TrimPrefix(l.profile+" "+l.Name, " "))
}

func newLearningScreen() *learningScreen {
	s := &learningScreen{}
	s.list = list[learningCurve]{
		about: description{
			name: "learning", grid: true, open: bind("t", "how the scheduler learns (training)", "t"),
			notes: []note{{title: "Learning", lines: []string{
				"  curves of a scheduler with --learn and of its trainer, the newest at the right",
				"  LOW, HIGH   the ends of the curve's scale; of several samples in a cell, their mean",
			}}},
		},
		ask: state.Ask{Learning: true}, sorted: "newest at the right", noun: "figure", id: (*learningCurve).name, rows: learningCurves,
		texts: func(l *learningCurve) []string { return []string{l.name()} },
		above: func(c *canvas) []string { return []string{s.summary(c), s.explained(c)} },
		none: func(c *canvas) string {
			if c.details.LearningErr != nil {
				return state.Printable(hintOf(c.details.LearningErr))
			}
			return "no profile of this scheduler learns; rungnn --learn does"
		},
	}
	return s
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

func (s *learningScreen) rowHeight(c *canvas) (lines int) {
	return max(1, min(c.space/max(len(s.shown), 1), highestCurve))
}

// Widths of the columns, and the largest number of lines of a curve.
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
	heading := []string{c.st.Fit("FIGURE", name)}
	for _, title := range []string{"NOW", "LOW", "HIGH"}[:numbers] {
		heading = append(heading, c.st.fitRight(title, numberWidth))
	}
	lines := append(s.above(c), c.st.Dim.Render(row(append(heading, s.span(c, room))...)))
	if len(s.shown) == 0 {
		lines[2] = ""
	}
	height := s.rowHeight(c)
	for i := range s.shown[from:to] {
		l := &s.shown[from+i]
		points, low, high := binned(l.Values, room)
		now, known := l.Values.Last()
		cells := []string{c.st.Fit(l.name(), name), c.st.Bold.Render(c.st.fitRight(number(now, known), numberWidth))}
		if numbers > 1 {
			cells = append(cells, c.st.Dim.Render(c.st.fitRight(number(low, known), numberWidth)),
				c.st.Dim.Render(c.st.fitRight(number(high, known), numberWidth)))
		}
		if from+i == c.cursor {
			cells[0] = c.st.Chosen.Render(cells[0])
		}
		curve := c.st.Curve(points, low, high, height)
		lines = append(lines, row(append(cells, strings.Repeat(" ", room-len(points))+curve[0])...))
		for _, below := range curve[1:] {
			lines = append(lines, strings.Repeat(" ", c.width-len(points))+below)
		}
	}
	return lines
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
		parts = append(parts, c.st.Bold.Render(state.Printable(profile))+" "+count(course.Sent)+" placements")
		if samples.Reported(profile) {
			parts = append(parts, count(course.Updates)+" updates", "guard passed "+count(course.Passed)+", refused "+count(course.Refused))
		} else {
			parts = append(parts, "no report of the trainer yet")
		}
		for _, bad := range []struct{ name, says string }{{course.Dropped, "dropped "}, {course.Restarts, "trainer restarts "}} {
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
func (s *learningScreen) span(c *canvas, room int) string {
	times := c.details.Learning.Times
	if len(times) == 0 {
		return ""
	}
	d := time.Duration(times[len(times)-1]-times[0]) * time.Second
	return c.st.fitRight("LAST "+short(d), room)
}
