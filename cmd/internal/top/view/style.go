package view

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Look says what the terminal can show.
type Look struct {
	Color   bool // use colours; without them, only bold and dim text
	Unicode bool // use characters beyond ASCII for bars and arrows
}

// styles are the text styles and signs of the view. Colours are among the terminal's own sixteen,
// so that they follow its theme.
type styles struct {
	look                            Look
	plain, bold, dim                lipgloss.Style
	good, warn, bad, accent, banner lipgloss.Style
	chosen                          lipgloss.Style // the row of the cursor
	up, down, dot, dash, ellipsis   string
	idle                            string   // a GPU that nobody requests
	full, half, empty               string   // parts of a bar; half is empty if there is no such sign
	heat                            []string // of equal parts of the way to 100%
	over                            string   // a heat of more
	micro                           string
}

func newStyles(look Look) styles {
	s := lipgloss.NewStyle
	st := styles{
		look: look, plain: s(), bold: s().Bold(true), dim: s().Faint(true),
		good: s(), warn: s(), bad: s().Bold(true), accent: s().Bold(true), banner: s().Bold(true).Reverse(true), chosen: s().Reverse(true),
		up: "▲", down: "▼", dot: " · ", dash: "–", ellipsis: "…", full: "━", half: "╸", empty: "·", idle: "·",
		heat: strings.Split("▁▂▃▄▅▆▇█", ""), over: "▲", micro: "µ",
	}
	if look.Color {
		st.good = s().Foreground(lipgloss.Green)
		st.warn = s().Foreground(lipgloss.Yellow)
		st.bad = s().Foreground(lipgloss.Red)
		st.accent = s().Bold(true).Foreground(lipgloss.Cyan)
		st.banner = s().Bold(true).Foreground(lipgloss.BrightWhite).Background(lipgloss.Red)
		st.empty = "─" // its colour tells it from full
	}
	if !look.Unicode {
		st.up, st.down = "^", "v"
		st.dot, st.dash = " | ", "-"
		st.ellipsis = "~"
		st.full, st.half = "#", ""
		st.empty, st.idle = ".", "."
		st.heat, st.over = strings.Split("0123456789", ""), "+"
		st.micro = "u"
	}
	return st
}

// Fractions from which a bar turns yellow and red.
const (
	warnFrom = 0.70
	badFrom  = 0.90
)

// level returns the style of a bar.
func (st *styles) level(fraction float64) lipgloss.Style {
	switch {
	case fraction >= badFrom:
		return st.bad
	case fraction >= warnFrom:
		return st.warn
	}
	return st.good
}

// alarm returns the style of a figure: coloured from warnFrom on.
func (st *styles) alarm(fraction float64) lipgloss.Style {
	if fraction < warnFrom {
		return st.plain
	}
	return st.level(fraction)
}

// heatSign is the sign of a fraction in the heat map.
func (st *styles) heatSign(fraction float64) string {
	switch {
	case fraction <= 0:
		return st.idle
	case fraction > 1:
		return st.over
	}
	return st.heat[min(int(fraction*float64(len(st.heat))), len(st.heat)-1)]
}

// bar draws a fraction in exactly width cells. A fraction over 0 shows at least one step, and only
// a fraction of 1 or more fills the bar.
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

// fit cuts or pads text to exactly width cells, aligned left.
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

// fitRight cuts or pads text to exactly width cells, aligned right.
func (st *styles) fitRight(s string, width int) string {
	if w := ansi.StringWidth(s); w < width {
		return strings.Repeat(" ", width-w) + s
	}
	return st.fit(s, width)
}

// fitMiddle cuts text in the middle, or pads it, to exactly width cells.
func (st *styles) fitMiddle(s string, width int) string {
	w := ansi.StringWidth(s)
	if w <= width || width < 8 {
		return st.fit(s, width)
	}
	tail := width / 2
	return st.fit(ansi.Truncate(s, width-tail, st.ellipsis)+ansi.TruncateLeft(s, w-tail, ""), width)
}

// sides puts one text at each end of a line. If both do not fit, it leaves out the right one.
func (st *styles) sides(left, right string, width int) string {
	l, r := ansi.StringWidth(left), ansi.StringWidth(right)
	if r == 0 || l+r+2 > width {
		return st.fit(left, width)
	}
	return left + strings.Repeat(" ", width-l-r) + right
}
