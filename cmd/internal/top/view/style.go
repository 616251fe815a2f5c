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
	Unicode bool // keep characters beyond ASCII
}

// The signs of the view. Where the terminal knows only ASCII, the finished lines are translated.
const (
	up, down, dot, dash, ellipsis = "▲", "▼", " · ", "–", "…"
	idle                          = "·" // an unrequested GPU
	over                          = "▲" // a heat of more than 100%
)

// heatSigns are the signs of equal parts of the way to 100%.
var heatSigns = strings.Split("▁▂▃▄▅▆▇█", "")

// styles are the text styles of the view. Colours are among the terminal's own sixteen, so that they follow its theme.
type styles struct {
	Plain, Bold, Dim                lipgloss.Style
	Good, Warn, Bad, Accent, Banner lipgloss.Style
	Chosen                          lipgloss.Style // the row of the cursor
	empty                           string         // the empty part of a bar
}

// newStyles returns the styles for a terminal.
func newStyles(look Look) styles {
	s := lipgloss.NewStyle
	st := styles{
		Plain: s(), Bold: s().Bold(true), Dim: s().Faint(true), Good: s(), Warn: s(), Bad: s().Bold(true), Accent: s().Bold(true),
		Banner: s().Bold(true).Reverse(true), Chosen: s().Reverse(true), empty: "·",
	}
	if look.Color {
		st.Good = s().Foreground(lipgloss.Green)
		st.Warn = s().Foreground(lipgloss.Yellow)
		st.Bad = s().Foreground(lipgloss.Red)
		st.Accent = s().Bold(true).Foreground(lipgloss.Cyan)
		st.Banner = s().Bold(true).Foreground(lipgloss.BrightWhite).Background(lipgloss.Red)
		st.empty = "─" // its colour tells it from the full part
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
func heatSign(fraction float64) string {
	switch {
	case fraction <= 0:
		return idle
	case fraction > 1:
		return over
	}
	return heatSigns[min(int(fraction*float64(len(heatSigns))), len(heatSigns)-1)]
}

// Bar draws a fraction in exactly width cells, in steps of half a cell. A fraction over 0 shows at least one step, and only a fraction
// of 1 or more fills the bar.
func (st *styles) Bar(width int, fraction float64, faint bool) string {
	if width <= 0 {
		return ""
	}
	total, steps := 2*width, 0
	switch {
	case fraction >= 1:
		steps = total
	case fraction > 0:
		steps = max(1, min(int(fraction*float64(total)+0.5), total-1))
	}
	filled := strings.Repeat("━", steps/2) + strings.Repeat("╸", steps%2)
	return st.Level(fraction).Faint(faint).Render(filled) + st.Dim.Render(strings.Repeat(st.empty, width-(steps+1)/2))
}

// Fit cuts or pads text to exactly width cells, aligned left.
func (st *styles) Fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	w := ansi.StringWidth(s)
	if w > width {
		s = ansi.Truncate(s, width, ellipsis)
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

// fitMiddle cuts a name in the middle, or pads it, to exactly width cells. It keeps the end, by which the pods of a workload differ:
// "shop/valiant-maple-6f7c9d8b5-gcjkv" becomes "shop/valiant-maple…gcjkv".
func (st *styles) fitMiddle(s string, width int) string {
	w := ansi.StringWidth(s)
	if w <= width || width < 8 {
		return st.Fit(s, width)
	}
	tail := min(width/2, ansi.StringWidth(s[strings.LastIndexByte(s, '-')+1:]))
	return st.Fit(ansi.Truncate(s, width-tail, ellipsis)+ansi.TruncateLeft(s, w-tail, ""), width)
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
			p = st.Dim.Render(dot) + p
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
	return fmt.Sprintf("%.0fµs", micro)
}
