package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/usage"
)

// usedScreen lists the nodes' usage beside their pods' requests, the node with the highest CPU usage first.
func usedScreen() screen {
	s := &list[state.Node]{
		about: description{
			name: "used", open: bind("u", "used beside requested", "u"),
			notes: []note{{title: "Used", lines: []string{
				"  REQ, USED   requested by pods and really used, of what is allocatable",
				"  used is what metrics.k8s.io says; a dash: the node is not measured",
				"  below that: which nodes the scheduler scores by usage, and which by requests",
			}}},
		},
		ask: state.Ask{Usage: true}, sorted: "by CPU used", noun: "node", id: nodeName, to: nodeTarget,
		above: func(c *canvas) []string { return []string{usedSum(c), scoredBy(c)} },
		rows: func(c *canvas, f query.Filter) ([]state.Node, int) {
			shown, total := selected(f, c.frame.Nodes, query.NodeRow)
			slices.SortStableFunc(shown, func(a, b state.Node) int { // the frame is sorted by name
				return cmp.Compare(usedCPU(&b), usedCPU(&a))
			})
			return shown, total
		},
	}
	s.columns = func(c *canvas) []column[state.Node] { return usedColumns(c, s.shown) }
	return s
}

// usedCPU is the fraction of CPU that a node uses, or -1 if it is not measured.
func usedCPU(n *state.Node) float64 {
	if n.Used == nil {
		return -1
	}
	return n.UsedCPU().Fraction()
}

// usedColumns are the columns of requests and usage, all of one width.
func usedColumns(c *canvas, nodes []state.Node) []column[state.Node] {
	name := len("NODE")
	for i := range nodes {
		name = max(name, len(nodes[i].Name))
	}
	name = min(name, max(c.width/4, 8))
	width := max((c.width-name)/4-len(c.gap()), percentWidth)
	cols := []column[state.Node]{{title: "NODE", width: name, cell: nodeName}}
	add := func(title string, of func(*state.Node) (u state.Usage, known bool)) {
		if width < len(title) {
			title = strings.ReplaceAll(strings.ReplaceAll(title, "CPU ", "C."), "MEM ", "M.")
		}
		cols = append(cols, column[state.Node]{title: title, right: true, width: width, draw: func(n *state.Node, width int) string {
			u, known := of(n)
			if !known {
				return c.st.Dim.Render(c.st.FitRight("-", width))
			}
			return usedCell(c, u, width)
		}})
	}
	add("CPU REQ", func(n *state.Node) (state.Usage, bool) { return n.CPU, true })
	add("CPU USED", func(n *state.Node) (state.Usage, bool) { return n.UsedCPU(), n.Used != nil })
	add("MEM REQ", func(n *state.Node) (state.Usage, bool) { return n.Memory, true })
	add("MEM USED", func(n *state.Node) (state.Usage, bool) { return n.UsedMemory(), n.Used != nil })
	return cols
}

// usedCell draws a bar, if there is room, and a percentage.
func usedCell(c *canvas, u state.Usage, width int) string {
	bar := width - percentWidth
	if bar < smallBar {
		bar = 0
	}
	f := u.Fraction()
	return c.st.Bar(bar, f, false) + c.st.Alarm(f).Render(c.st.FitRight(state.Percent(f), width-bar))
}

// usedSum returns the usage of all workers, or that nothing is measured.
func usedSum(c *canvas) string {
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

// scoredBy returns which nodes the scheduler scores by its own measurements of usage, and which by requests.
func scoredBy(c *canvas) string {
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
