package view

import (
	"fmt"
	"strings"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// column is a column of the node list as laid out for one width.
type column struct {
	by    query.Column
	title string
	width int
	right bool
	cell  func(n *state.Node, width int) string
}

// Widths in cells. A usage column grows from its percentage alone over a bar to the
// amounts in figures.
const (
	percentWidth = 5
	smallBar     = 6
	niceBar      = 12
	smallRole    = 7
	widestBar    = 30
	widestName   = 48
)

// nodeLines is the heading and the given nodes.
func (m *Model) nodeLines(visible []state.Node) []string {
	cols := m.layout()
	lines := []string{m.heading(cols)}
	if len(visible) == 0 && len(m.nodes) == 0 && m.rows() > 0 {
		text := "no nodes in this cluster"
		if !m.lists[nodesScreen].filter.Empty() {
			text = "no node passes the filter"
		}
		return append(lines, m.st.dim.Render(text))
	}
	for i := range visible {
		n := &visible[i]
		cells := make([]string, len(cols))
		for j, c := range cols {
			cells[j] = c.cell(n, c.width)
		}
		lines = append(lines, strings.Join(cells, m.gap()))
	}
	return lines
}

func (m *Model) heading(cols []column) string {
	cells := make([]string, len(cols))
	for i, c := range cols {
		title, style := c.title, m.st.dim
		if c.by == m.sort.Column {
			title, style = title+m.arrow(), m.st.bold
		}
		if c.right {
			cells[i] = style.Render(m.st.fitRight(title, c.width))
		} else {
			cells[i] = style.Render(m.st.fit(title, c.width))
		}
	}
	return strings.Join(cells, m.gap())
}

// plan is which columns a window has room for, and how wide those are that can stretch.
type plan struct {
	name, role                      int // widths; no role if 0
	status, age, version, pods, gpu bool
	usage, gpuUsage                 usageLayout
}

// plan starts from the name and the two percentages and adds one thing more as long as it
// fits, the most wanted first.
func (m *Model) plan(w widths) plan {
	gap := len(m.gap())
	percents := 2 * (gap + percentWidth)
	p := plan{name: min(w.name, 24, max(m.width-percents, 1))}
	room := m.width - p.name - percents
	take := func(n int) bool {
		if n > room {
			return false
		}
		room -= n
		return true
	}
	p.status = take(gap + w.status)
	bars := take(2 * smallBar)
	p.pods = take(gap + w.pods)
	p.gpu = m.frame.HasGPU() && take(gap+percentWidth)
	if role := min(w.role, room-gap); role >= smallRole {
		p.role = role
		room -= gap + role
	}
	gpuBar := p.gpu && bars && take(smallBar)
	p.age = take(gap + w.age)
	if more := min(w.name, widestName) - p.name; more > 0 && p.role > 0 && take(more) {
		p.name += more
	}
	if !bars {
		return p
	}
	usages, amounts := 2, w.cpu+w.memory+2
	if gpuBar {
		usages, amounts = 3, amounts+w.gpu+1
	}
	grow := func(widest int) {
		n := min(room/usages, widest-p.usage.bar)
		p.usage.bar, room = p.usage.bar+n, room-n*usages
	}
	p.usage.bar = smallBar
	grow(niceBar)
	p.usage.amounts = p.usage.bar == niceBar && take(amounts)
	p.version = take(gap + w.version)
	grow(widestBar)
	if gpuBar {
		p.gpuUsage = p.usage
	}
	return p
}

// layout is the columns for the width of the window.
func (m *Model) layout() []column {
	w := m.measure()
	p := m.plan(w)
	age := func(n *state.Node) string { return state.Age(m.frame.Time, n.Created) }
	cols := []column{{query.Name, "NAME", p.name, false, m.nameCell}}
	add := func(on bool, c column) {
		if on {
			cols = append(cols, c)
		}
	}
	add(p.status, column{query.Status, "STATUS", w.status, false, m.statusCell})
	add(p.role > 0, column{query.Role, "ROLE", p.role, false, m.plainCell((*state.Node).Role)})
	add(p.age, column{query.Age, "AGE", w.age, true, m.rightCell(age)})
	add(p.version, column{query.Version, "VERSION", w.version, false, m.plainCell(func(n *state.Node) string { return n.Version })})
	add(p.pods, column{query.Pods, "PODS", w.pods, true, m.rightCell(podsText)})
	cpu := func(n *state.Node) state.Usage { return n.CPU }
	memory := func(n *state.Node) state.Usage { return n.Memory }
	gpu := func(n *state.Node) state.Usage { return n.GPU }
	add(true, m.usageColumn(p.usage, query.CPU, "CPU", w.cpu, cpu, cpuText))
	add(true, m.usageColumn(p.usage, query.Memory, "MEMORY", w.memory, memory, memoryText))
	add(p.gpu, m.usageColumn(p.gpuUsage, query.GPU, "GPU", w.gpu, gpu, gpuText))
	return cols
}

// usageLayout is how much a usage column shows beside its percentage.
type usageLayout struct {
	bar     int // width of the bar, 0 for none
	amounts bool
}

// usageColumn draws bar, percentage and, if there is room, the amounts.
func (m *Model) usageColumn(u usageLayout, by query.Column, title string, amount int, of func(*state.Node) state.Usage, text func(*state.Node) string) column {
	width := u.bar + percentWidth
	if u.amounts {
		width += 1 + amount
	}
	if len(title) >= width { // with room for the arrow
		title = title[:3]
	}
	return column{by, title, width, u.bar == 0, func(n *state.Node, _ int) string {
		if of(n) == (state.Usage{}) { // it has none of these
			return m.st.dim.Render(m.st.fit(strings.Repeat(" ", u.bar)+m.st.fitRight("-", percentWidth), width))
		}
		f, faint := of(n).Fraction(), !n.Worker
		s := m.st.bar(u.bar, f, faint) + m.st.alarm(f).Faint(faint).Render(m.st.fitRight(state.Percent(f), percentWidth))
		if u.amounts {
			s += " " + m.st.dim.Render(m.st.fitRight(text(n), amount))
		}
		return s
	}}
}

// gap is what separates two columns.
func (m *Model) gap() string {
	if m.width < 60 {
		return " "
	}
	return "  "
}

// widths is how wide the content of the columns is, over all nodes and not only the ones
// on the screen, so that scrolling does not move the columns.
type widths struct{ name, status, role, age, version, pods, cpu, memory, gpu int }

func (m *Model) measure() widths {
	w := widths{ // a title and the arrow of the sort
		name: len("NAME") + 1, status: len("STATUS") + 1, role: len("ROLE") + 1,
		age: len("23h59m"), version: len("VERSION") + 1, pods: len("PODS") + 1,
	}
	for i := range m.frame.Nodes {
		n := &m.frame.Nodes[i]
		w.name = max(w.name, len(n.Name))
		w.status = max(w.status, len(shortStatus(n)))
		w.role = max(w.role, len(n.Role()))
		w.age = max(w.age, len(state.Age(m.frame.Time, n.Created)))
		w.version = max(w.version, len(n.Version))
		w.pods = max(w.pods, len(podsText(n)))
		w.cpu, w.memory, w.gpu = max(w.cpu, len(cpuText(n))), max(w.memory, len(memoryText(n))), max(w.gpu, len(gpuText(n)))
	}
	w.role, w.version = min(w.role, 20), min(w.version, 16)
	return w
}

func cpuText(n *state.Node) string {
	return state.Cores(n.CPU.Requested) + "/" + state.Cores(n.CPU.Allocatable)
}

func memoryText(n *state.Node) string {
	return state.Bytes(n.Memory.Requested) + "/" + state.Bytes(n.Memory.Allocatable)
}

func gpuText(n *state.Node) string {
	return fmt.Sprintf("%d/%d", n.GPU.Requested, n.GPU.Allocatable)
}

func podsText(n *state.Node) string {
	return fmt.Sprintf("%d/%d", n.Pods.Requested, n.Pods.Allocatable)
}

// shortStatus fits a narrow column: kubectl's "Ready,SchedulingDisabled" is "Cordoned".
func shortStatus(n *state.Node) string {
	if n.Cordoned && n.Ready {
		return "Cordoned"
	}
	status, _, _ := strings.Cut(n.Status, ",")
	return status
}

func (m *Model) nameCell(n *state.Node, width int) string {
	text := m.st.fit(n.Name, width)
	if !n.Worker {
		return m.st.dim.Render(text)
	}
	return text
}

func (m *Model) statusCell(n *state.Node, width int) string {
	text := m.st.fit(shortStatus(n), width)
	switch {
	case !n.Ready:
		return m.st.bad.Render(text)
	case n.Cordoned:
		return m.st.warn.Render(text)
	}
	return m.st.plain.Faint(!n.Worker).Render(text)
}

func (m *Model) plainCell(text func(*state.Node) string) func(*state.Node, int) string {
	return func(n *state.Node, width int) string { return m.st.dim.Render(m.st.fit(text(n), width)) }
}

func (m *Model) rightCell(text func(*state.Node) string) func(*state.Node, int) string {
	return func(n *state.Node, width int) string {
		s := m.st.fitRight(text(n), width)
		if !n.Worker {
			return m.st.dim.Render(s)
		}
		return s
	}
}
