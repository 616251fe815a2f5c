package view

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Look describes the terminal's abilities.
type Look struct {
	Color   bool // use colours; without them, only bold and dim text
	Unicode bool // use characters beyond ASCII for bars and arrows
}

// styles are the text styles and signs of the view. Colours are among the terminal's own sixteen,
// so that they follow its theme.
type styles struct {
	Plain, Bold, Dim                lipgloss.Style
	Good, Warn, Bad, Accent, Banner lipgloss.Style
	Chosen                          lipgloss.Style // the row of the cursor
	Up, Down, Dot, Dash, Ellipsis   string
	Idle                            string   // an unrequested GPU
	Heat                            []string // signs of equal parts of the way to 100%
	Over                            string   // a heat of more

	look              Look
	full, half, empty string // parts of a bar; half is empty if there is no such sign
	micro             string
}

// New returns the styles for a terminal.
func newStyles(look Look) styles {
	s := lipgloss.NewStyle
	st := styles{
		look: look, Plain: s(), Bold: s().Bold(true), Dim: s().Faint(true),
		Good: s(), Warn: s(), Bad: s().Bold(true), Accent: s().Bold(true), Banner: s().Bold(true).Reverse(true), Chosen: s().Reverse(true),
		Up: "▲", Down: "▼", Dot: " · ", Dash: "–", Ellipsis: "…", full: "━", half: "╸", empty: "·", Idle: "·",
		Heat: strings.Split("▁▂▃▄▅▆▇█", ""), Over: "▲", micro: "µ",
	}
	if look.Color {
		st.Good = s().Foreground(lipgloss.Green)
		st.Warn = s().Foreground(lipgloss.Yellow)
		st.Bad = s().Foreground(lipgloss.Red)
		st.Accent = s().Bold(true).Foreground(lipgloss.Cyan)
		st.Banner = s().Bold(true).Foreground(lipgloss.BrightWhite).Background(lipgloss.Red)
		st.empty = "─" // its colour tells it from full
	}
	if !look.Unicode {
		st.Up, st.Down = "^", "v"
		st.Dot, st.Dash = " | ", "-"
		st.Ellipsis = "~"
		st.full, st.half = "#", ""
		st.empty, st.Idle = ".", "."
		st.Heat, st.Over = strings.Split("0123456789", ""), "+"
		st.micro = "u"
	}
	return st
}

// Fractions from which a bar turns yellow and red.
const (
	warnFrom = 0.70
	badFrom  = 0.90
)

// Level returns the style of a bar.
func (st *styles) Level(fraction float64) lipgloss.Style {
	switch {
	case fraction >= badFrom:
		return st.Bad
	case fraction >= warnFrom:
		return st.Warn
	}
	return st.Good
}

// alarm returns the style of a figure: coloured from warnFrom on.
func (st *styles) alarm(fraction float64) lipgloss.Style {
	if fraction < warnFrom {
		return st.Plain
	}
	return st.Level(fraction)
}

// heatSign is the sign of a fraction in the heat map.
func (st *styles) heatSign(fraction float64) string {
	switch {
	case fraction <= 0:
		return st.Idle
	case fraction > 1:
		return st.Over
	}
	return st.Heat[min(int(fraction*float64(len(st.Heat))), len(st.Heat)-1)]
}

// Bar draws a fraction in exactly width cells. A fraction over 0 shows at least one step, and only
// a fraction of 1 or more fills the bar.
func (st *styles) Bar(width int, fraction float64, faint bool) string {
	if width <= 0 {
		return ""
	}
	steps := 1
	if st.half != "" {
		steps = 2
	}
	total := width * steps
	units := 0
	switch {
	case fraction >= 1:
		units = total
	case fraction > 0:
		units = max(1, min(int(fraction*float64(total)+0.5), total-1))
	}
	cells := units / steps
	filled := strings.Repeat(st.full, cells)
	if units%steps > 0 {
		filled += st.half
		cells++
	}
	return st.Level(fraction).Faint(faint).Render(filled) + st.Dim.Render(strings.Repeat(st.empty, width-cells))
}

// Fit cuts or pads text to exactly width cells, aligned left.
func (st *styles) Fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	w := ansi.StringWidth(s)
	if w > width {
		s = ansi.Truncate(s, width, st.Ellipsis)
		w = ansi.StringWidth(s)
	}
	return s + strings.Repeat(" ", max(width-w, 0))
}

// fitRight cuts or pads text to exactly width cells, aligned right.
func (st *styles) fitRight(s string, width int) string {
	if w := ansi.StringWidth(s); w < width {
		return strings.Repeat(" ", width-w) + s
	}
	return st.Fit(s, width)
}

// fitMiddle cuts a name in the middle, or pads it, to exactly width cells. It keeps the workload's name and the end, by which the pods
// of a workload differ: "shop/valiant-maple-6f7c9d8b5-gcjkv" becomes "shop/valiant-maple…gcjkv". In less room it first shortens what
// stands before the last slash, such as the namespace.
func (st *styles) fitMiddle(s string, width int) string {
	w := ansi.StringWidth(s)
	if w <= width || width < 8 {
		return st.Fit(s, width)
	}
	mark := ansi.StringWidth(st.Ellipsis)
	tail := width / 2
	if end := ansi.StringWidth(s[strings.LastIndexByte(s, '-')+1:]); strings.Contains(s, "-") && end < tail {
		tail = end
	}
	before, name := "", s
	if slash := strings.LastIndexByte(s, '/'); slash >= 0 && slash < len(s)-1 {
		before, name = s[:slash], s[slash+1:]
	}
	stem := ansi.StringWidth(stemOf(name))
	if over := ansi.StringWidth(before) + 1 + stem + mark + tail - width; before != "" && over > 0 && ansi.StringWidth(name) > tail {
		short := ansi.Truncate(before, max(ansi.StringWidth(before)-over, 1+mark), st.Ellipsis)
		s = short + "/" + name
		w = ansi.StringWidth(s)
		if w <= width {
			return st.Fit(s, width)
		}
	}
	return st.Fit(ansi.Truncate(s, width-tail, st.Ellipsis)+ansi.TruncateLeft(s, w-tail, ""), width)
}

// stemOf returns the name of the workload in a pod's name, without the template's hash and the pod's own end: "web" of
// "web-6f7c9d8b5-gcjkv" and of "web-0".
func stemOf(name string) string {
	stem := name
	if i := strings.LastIndexByte(stem, '-'); i > 0 {
		stem = stem[:i]
	}
	if i := strings.LastIndexByte(stem, '-'); i > 0 && len(stem)-i > 6 && strings.ContainsAny(stem[i:], "0123456789") {
		stem = stem[:i]
	}
	return stem
}

// sides puts one text at each end of a line. If both do not fit, it leaves out the right one.
func (st *styles) sides(left, right string, width int) string {
	l, r := ansi.StringWidth(left), ansi.StringWidth(right)
	if r == 0 || l+r+2 > width {
		return st.Fit(left, width)
	}
	return left + strings.Repeat(" ", width-l-r) + right
}

// Join puts as many whole parts on a line as fit.
func (st *styles) Join(parts []string, width int) string {
	out := ""
	for i, p := range parts {
		if i > 0 {
			p = st.Dim.Render(st.Dot) + p
		}
		if i > 0 && ansi.StringWidth(out)+ansi.StringWidth(p) > width {
			break
		}
		out += p
	}
	return out
}

// Count writes a number with its noun.
func (st *styles) Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return st.Bold.Render(fmt.Sprint(n)) + st.Dim.Render(" "+noun)
}

// Latency writes microseconds.
func (st *styles) Latency(micro float64) string {
	switch {
	case micro <= 0:
		return "-"
	case micro >= 1e4:
		return fmt.Sprintf("%.0fms", micro/1000)
	case micro >= 1000:
		return fmt.Sprintf("%.1fms", micro/1000)
	}
	return fmt.Sprintf("%.0f%ss", micro, st.micro)
}
