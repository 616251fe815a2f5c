package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
)

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
		if m.cfg.Status != nil {
			all = append(all, headerLine{m.st.Fit(m.status, m.width), 7})
		}
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
	lines := make([]string, len(all))
	for i, l := range all {
		lines[i] = l.text
	}
	return lines
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
