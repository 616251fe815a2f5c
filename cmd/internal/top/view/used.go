package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/usage"
)

// usedScreen lists the nodes' usage beside their pods' requests, the node with the highest CPU usage first.
type usedScreen struct {
	nodeList
}

func (*usedScreen) describe() description {
	return description{
		name: "used", heading: 3, open: bind("u", "used beside requested", "u"),
		notes: []note{{title: "Used", lines: []string{
			"  REQ, USED   requested by pods and really used, of what is allocatable",
			"  used is what metrics.k8s.io says; a dash: the node is not measured",
			"  below that: which nodes the scheduler scores by usage, and which by requests",
		}}},
	}
}

func (*usedScreen) asks() state.Ask { return state.Ask{Usage: true} }

func (s *usedScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.frame.Nodes, query.NodeRow)
	slices.SortStableFunc(s.shown, func(a, b state.Node) int { // the frame is sorted by name
		return cmp.Compare(usedCPU(&b), usedCPU(&a))
	})
}

// usedCPU is the fraction of CPU that a node uses, or -1 if it is not measured.
func usedCPU(n *state.Node) float64 {
	if n.Used == nil {
		return -1
	}
	return state.Usage{Requested: n.Used.CPU, Allocatable: n.CPU.Allocatable}.Fraction()
}

func (*usedScreen) press(*canvas, tea.KeyPressMsg) {}
func (*usedScreen) order(*canvas) string           { return "by CPU used" }
func (*usedScreen) empty(*canvas) string           { return "no node passes the filter" }

func (s *usedScreen) size(c *canvas) (shown, total int) { return len(s.shown), len(c.frame.Nodes) }

func (s *usedScreen) draw(c *canvas, from, to int) []string {
	name := len("NODE")
	for i := range s.shown {
		name = max(name, len(s.shown[i].Name))
	}
	name = min(name, max(c.width/4, 8))
	width := max((c.width-name)/4-len(c.gap()), percentWidth)
	row := func(cells ...string) string { return strings.Join(cells, c.gap()) }
	heading := []string{c.st.Fit("NODE", name)}
	for _, title := range []string{"CPU REQ", "CPU USED", "MEM REQ", "MEM USED"} {
		if width < len(title) {
			title = strings.ReplaceAll(strings.ReplaceAll(title, "CPU ", "C."), "MEM ", "M.")
		}
		heading = append(heading, c.st.FitRight(title, width))
	}
	lines := []string{s.sum(c), s.scored(c), c.st.Dim.Render(row(heading...))}
	for i := range s.shown[from:to] {
		n := &s.shown[from+i]
		cpu, memory := "", ""
		if n.Used == nil {
			cpu = c.st.Dim.Render(c.st.FitRight("-", width))
			memory = cpu
		} else {
			cpu = s.cell(c, state.Usage{Requested: n.Used.CPU, Allocatable: n.CPU.Allocatable}, width)
			memory = s.cell(c, state.Usage{Requested: n.Used.Memory, Allocatable: n.Memory.Allocatable}, width)
		}
		lines = append(lines, row(c.st.Fit(n.Name, name), s.cell(c, n.CPU, width), cpu, s.cell(c, n.Memory, width), memory))
	}
	return lines
}

// cell draws a bar, if there is room, and a percentage.
func (s *usedScreen) cell(c *canvas, u state.Usage, width int) string {
	bar := width - percentWidth
	if bar < smallBar {
		bar = 0
	}
	f := u.Fraction()
	return c.st.Bar(bar, f, false) + c.st.Alarm(f).Render(c.st.FitRight(state.Percent(f), width-bar))
}

// sum returns the usage of all workers, or that nothing is measured.
func (s *usedScreen) sum(c *canvas) string {
	t := &c.frame.Totals
	if t.Used == nil {
		return c.st.Dim.Render(c.st.Fit("no node is measured: metrics.k8s.io does not answer", c.width))
	}
	part := func(label string, used int64, u state.Usage, write func(int64) string) string {
		u.Requested = used
		return fmt.Sprintf("%s %s", label, c.st.Bold.Render(state.Percent(u.Fraction()))) +
			c.st.Dim.Render(" "+write(used)+"/"+write(u.Allocatable))
	}
	parts := []string{part("used CPU", t.Used.CPU, t.CPU, state.Cores), part("memory", t.Used.Memory, t.Memory, state.Bytes)}
	if t.Measured < t.Workers {
		parts = append(parts, c.st.Warn.Render(fmt.Sprintf("%d of %d nodes measured", t.Measured, t.Workers)))
	}
	return c.st.Join(parts, c.width)
}

// scored returns which nodes the scheduler scores by its own measurements of usage, and which by requests.
func (s *usedScreen) scored(c *canvas) string {
	reports, parts := c.details.Usage, c.oneServer()
	for i := range reports {
		parts = append(parts, reportParts(c, &reports[i])...)
	}
	switch err := c.details.UsageErr; {
	case len(reports) == 0 && err != nil: // cut off rather than left out
		parts = append(parts, "by what nodes are scored is not known: "+state.Printable(err.Error()))
		return c.st.Dim.Render(c.st.Fit(strings.Join(parts, c.st.Dot), c.width))
	case len(reports) == 0:
		parts = append(parts, c.st.Dim.Render("the scheduler scores by requests; rungnn --usage measures"))
	case err != nil:
		parts = append(parts, c.st.Warn.Render("the scheduler does not answer"))
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}

// reportParts returns the parts of the line about a source of usage, the most important first.
func reportParts(c *canvas, r *usage.Report) []string {
	count := fmt.Sprintf("scored by usage %d/%d", r.Measured, r.Measured+r.Degraded)
	if r.Degraded > 0 || r.Failed {
		count = c.st.Warn.Render(count)
	}
	parts := []string{count, state.Printable(r.Source)}
	if r.Newest > 0 {
		parts = append(parts, "measured "+state.Age(c.frame.Time, time.Unix(r.Newest, 0))+" ago")
	} else {
		parts = append(parts, "nothing measured yet")
	}
	if r.Failed {
		parts = append(parts, c.st.Warn.Render("no answer"))
	}
	for i, d := range r.Named { // as many as there is room for
		name := state.Printable(d.Node + " " + d.Reason)
		if i == 0 {
			name = "by requests: " + name
		}
		parts = append(parts, name)
	}
	return parts
}
