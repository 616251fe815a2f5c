package view

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Look says what the terminal can show.
type Look struct {
	Color   bool // colours are wanted; without them bold and dim remain
	Unicode bool // bars and arrows beyond ASCII can be drawn
}

// styles are the few ways in which text looks, and the signs that go with them. Colours
// are the terminal's own sixteen, so that they follow its theme.
type styles struct {
	look                            Look
	plain, bold, dim                lipgloss.Style
	good, warn, bad, accent, banner lipgloss.Style
	up, down, dot, dash, ellipsis   string
	full, half, empty               string // of a bar; half is empty where there is none
}

func newStyles(look Look) styles {
	s := lipgloss.NewStyle
	st := styles{
		look: look, plain: s(), bold: s().Bold(true), dim: s().Faint(true),
		good: s(), warn: s(), bad: s().Bold(true), accent: s().Bold(true), banner: s().Bold(true).Reverse(true),
		up: "▲", down: "▼", dot: " · ", dash: "–", ellipsis: "…", full: "━", half: "╸", empty: "·",
	}
	if look.Color {
		st.good = s().Foreground(lipgloss.Green)
		st.warn = s().Foreground(lipgloss.Yellow)
		st.bad = s().Foreground(lipgloss.Red)
		st.accent = s().Bold(true).Foreground(lipgloss.Cyan)
		st.banner = s().Bold(true).Foreground(lipgloss.BrightWhite).Background(lipgloss.Red)
		st.empty = "─" // dimmed, and of another colour, it is told apart from what is full
	}
	if !look.Unicode {
		st.up, st.down, st.dot, st.dash, st.ellipsis = "^", "v", " | ", "-", "~"
		st.full, st.half, st.empty = "#", "", "."
	}
	return st
}

// Fractions from which a bar turns yellow and red.
const (
	warnFrom = 0.70
	badFrom  = 0.90
)

// level is the style of a bar.
func (st *styles) level(fraction float64) lipgloss.Style {
	switch {
	case fraction >= badFrom:
		return st.bad
	case fraction >= warnFrom:
		return st.warn
	}
	return st.good
}

// alarm is the style of a figure: coloured only where the eye should go.
func (st *styles) alarm(fraction float64) lipgloss.Style {
	if fraction < warnFrom {
		return st.plain
	}
	return st.level(fraction)
}

// bar draws a fraction into exactly width cells. Anything above nothing shows, and only
// what is full looks full.
func (st *styles) bar(width int, fraction float64, faint bool) string {
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
	return st.level(fraction).Faint(faint).Render(filled) + st.dim.Render(strings.Repeat(st.empty, width-cells))
}

// fit cuts or pads text to exactly width cells, at the left edge.
func (st *styles) fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	w := ansi.StringWidth(s)
	if w > width {
		s = ansi.Truncate(s, width, st.ellipsis)
		w = ansi.StringWidth(s)
	}
	return s + strings.Repeat(" ", max(width-w, 0))
}

// fitRight is fit at the right edge.
func (st *styles) fitRight(s string, width int) string {
	if w := ansi.StringWidth(s); w < width {
		return strings.Repeat(" ", width-w) + s
	}
	return st.fit(s, width)
}

// sides puts one text at each edge of a line. Where both do not fit, the right one goes.
func (st *styles) sides(left, right string, width int) string {
	l, r := ansi.StringWidth(left), ansi.StringWidth(right)
	if r == 0 || l+r+2 > width {
		return st.fit(left, width)
	}
	return left + strings.Repeat(" ", width-l-r) + right
}
