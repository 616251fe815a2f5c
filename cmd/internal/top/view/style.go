package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/each"
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

// headerLine is a line above the screen. In a low window, the least important lines are dropped.
type headerLine struct {
	text       string
	importance int
}

// buildHeader draws the lines above the screen.
func (m *Model) buildHeader() []string {
	if m.page().about.overlay {
		return []string{m.titleLine(), ""}
	}
	all := []headerLine{{m.titleLine(), 4}}
	if m.frame.Lost != nil {
		all = append(all, headerLine{m.bannerLine(m.frame.Lost), 9})
	}
	if m.loaded {
		all = append(all, headerLine{m.countsLine(), 5})
		for i, l := range m.gaugeLines() {
			all = append(all, headerLine{l, 6 - i})
		}
		all = append(all, headerLine{m.schedulersLine(), 3})
	}
	all = append(all, headerLine{"", 0})
	return mostImportant(all, max(m.height-2-minRows, 0))
}

// mostImportant returns the lines that fit into the budget, in their order, dropping the least important ones.
func mostImportant(all []headerLine, budget int) []string {
	for len(all) > budget {
		least := 0
		for i, l := range all {
			if l.importance <= all[least].importance {
				least = i
			}
		}
		all = slices.Delete(all, least, least+1)
	}
	return each.Map(all, func(l headerLine) string { return l.text })
}

// titleLine shows the cluster, the order of the rows, the interval and the time.
func (m *Model) titleLine() string {
	st := &m.st
	left := st.Accent.Render("ktop")
	if m.cfg.Title != "" {
		left += st.Dim.Render(dot) + st.Bold.Render(m.cfg.Title)
	}
	if !m.loaded {
		return st.Fit(left, m.width)
	}
	clock := m.frame.Time.Format(time.TimeOnly)
	order := m.page().order(&m.canvas) + dot
	every := "every " + m.cfg.Interval.String() + dot
	for _, right := range []string{st.Dim.Render(order+every) + clock, st.Dim.Render(order) + clock, clock} {
		if ansi.StringWidth(left)+ansi.StringWidth(right)+2 <= m.width {
			return st.sides(left, right, m.width)
		}
	}
	return st.Fit(left, m.width)
}

// bannerLine reports that the API server does not answer.
func (m *Model) bannerLine(l *state.Lost) string {
	text := fmt.Sprintf(" disconnected since %s (%s), trying again: %s",
		l.Since.Format(time.TimeOnly), state.Age(m.frame.Time, l.Since), state.Printable(l.Reason))
	return m.st.Banner.Render(m.st.Fit(text, m.width))
}

// countsLine counts all nodes, unready nodes, pending pods and running pods.
func (m *Model) countsLine() string {
	t, st := &m.frame.Totals, &m.st
	parts := []string{st.Count(t.Nodes, "node")}
	if bad := t.Nodes - t.Ready; bad > 0 {
		parts = append(parts, st.Bad.Render(fmt.Sprintf("%d not ready", bad)))
	} else if t.Nodes > 0 && m.width >= 60 { // a narrow window shows only problems
		parts = append(parts, st.Good.Render("all ready"))
	}
	if t.Cordoned > 0 && m.width >= 60 {
		parts = append(parts, st.Warn.Render(fmt.Sprintf("%d cordoned", t.Cordoned)))
	}
	pending := st.Bold.Render("0") + st.Dim.Render(" pending")
	if m.frame.PendingCount > 0 {
		pending = st.Warn.Bold(true).Render(fmt.Sprint(m.frame.PendingCount)) + st.Warn.Render(" pending")
	}
	parts = append(parts, pending, st.Bold.Render(fmt.Sprintf("%d/%d", t.Pods.Requested, t.Pods.Allocatable))+st.Dim.Render(" pods"))
	return st.Join(parts, m.width)
}

// gaugeLines draws the usage of CPU and memory side by side, and of GPUs beside or below them.
func (m *Model) gaugeLines() []string {
	t := &m.frame.Totals
	type gauge struct {
		label string
		use   state.Usage
		write func(int64) string
	}
	gauges := []gauge{{"CPU", t.CPU, state.Cores}, {"MEM", t.Memory, state.Bytes}}
	perLine := 2
	if m.frame.HasGPU() {
		gauges = append(gauges, gauge{"GPU", t.GPU, state.Devices})
		if m.width >= 100 {
			perLine = 3
		}
	}
	const gap = 3
	width := (m.width - gap*(perLine-1)) / perLine
	texts, widest := make([]string, len(gauges)), 0
	for i, g := range gauges {
		texts[i] = g.write(g.use.Requested) + "/" + g.write(g.use.Allocatable)
		widest = max(widest, len(texts[i]))
	}
	var lines []string
	for from := 0; from < len(gauges); from += perLine {
		var cells []string
		for i := from; i < min(from+perLine, len(gauges)); i++ {
			amounts := m.st.Fit(texts[i], widest)
			cells = append(cells, m.gauge(gauges[i].label, gauges[i].use.Fraction(), amounts, width))
		}
		lines = append(lines, strings.Join(cells, strings.Repeat(" ", gap)))
	}
	return lines
}

// gauge draws "CPU ████░░░░  20%  128/640" in exactly width cells. It leaves out the amounts if they
// do not fit, and then the bar.
func (m *Model) gauge(label string, fraction float64, amounts string, width int) string {
	st := &m.st
	tail := st.alarm(fraction).Render(st.fitRight(state.Percent(fraction), percentWidth))
	left := st.Bold.Render(label) + " "
	bar := width - ansi.StringWidth(left) - percentWidth
	if rest := bar - 2 - ansi.StringWidth(amounts); rest >= smallBar {
		bar, tail = rest, tail+"  "+st.Dim.Render(amounts)
	}
	if bar < 3 {
		return st.Fit(left+st.alarm(fraction).Render(state.Percent(fraction)), width)
	}
	return left + st.Bar(bar, fraction, false) + tail
}

// schedulersLine shows each scheduler's bindings per second, and the evenness of CPU requests over the nodes.
func (m *Model) schedulersLine() string {
	st := &m.st
	narrow := m.width < 60
	label, unit := st.Dim.Render("bound/s  "), ""
	before := st.Dim.Render("CPU spread ")
	if narrow {
		label, unit = "", "/s"
		before = st.Dim.Render("std ")
	}
	right := before + st.Bold.Render(fmt.Sprintf("%.3f", m.frame.CPUSpread.Std))
	if !narrow {
		right += st.Dim.Render(" std")
	}
	if len(m.frame.Schedulers) == 0 {
		return st.sides(st.Dim.Render("no pod bound yet"), right, m.width)
	}
	parts := []string{}
	for _, sc := range m.frame.Schedulers {
		rate := st.Dim.Render(state.Rate(sc.Rate) + unit)
		if sc.Rate > 0 {
			rate = st.Good.Bold(true).Render(state.Rate(sc.Rate) + unit)
		}
		parts = append(parts, state.Printable(sc.Name)+" "+rate)
	}
	room := m.width - ansi.StringWidth(label)
	if left := label + st.Join(parts, room); ansi.StringWidth(left)+ansi.StringWidth(right)+2 <= m.width || narrow {
		return st.sides(left, right, m.width)
	}
	return st.sides(label+st.Join(parts, room-ansi.StringWidth(right)-2), right, m.width)
}
