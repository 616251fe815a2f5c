package view

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// column is a column of the node list, laid out for the width of a window.
type column struct {
	by    query.Column
	title string
	width int  // in cells
	right bool // right-aligned
	cell  func(n *state.Node, width int) string
}

// Widths in cells. A usage column shows a percentage, with more room also a bar, and with
// still more the amounts.
const (
	percentWidth = 5
	smallBar     = 6
	niceBar      = 12
	smallRole    = 7
	widestBar    = 30
	widestName   = 48
)

// plan holds the columns that a window has room for, and the widths of the flexible ones.
type plan struct {
	name, role                      int // widths; no role if 0
	status, age, version, pods, gpu bool
	usage, gpuUsage                 usageLayout
}

// plan starts from the name and the percentages of CPU and memory. It then adds columns, bars
// and amounts as long as they fit, the most important first.
func (c nodeColumns) plan(w widths) plan {
	gap := len(c.gap())
	percents := 2 * (gap + percentWidth)
	p := plan{name: min(w.name, 24, max(c.width-percents, 1))}
	room := c.width - p.name - percents
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
	p.gpu = c.frame.HasGPU() && take(gap+percentWidth)
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

// nodeColumns lays out the columns of the node list on a canvas.
type nodeColumns struct{ *canvas }

// layout returns the columns that the window has room for, with their widths.
func (c nodeColumns) layout() []column {
	w := c.measure()
	p := c.plan(w)
	age := func(n *state.Node) string { return state.Age(c.frame.Time, n.Created) }
	cols := []column{{query.Name, "NAME", p.name, false, c.nameCell}}
	add := func(fits bool, col column) {
		if fits {
			cols = append(cols, col)
		}
	}
	add(p.status, column{query.Status, "STATUS", w.status, false, c.statusCell})
	add(p.role > 0, column{query.Role, "ROLE", p.role, false, c.plainCell((*state.Node).Role)})
	add(p.age, column{query.Age, "AGE", w.age, true, c.rightCell(age)})
	add(p.version, column{query.Version, "VERSION", w.version, false, c.plainCell(func(n *state.Node) string { return n.Version })})
	add(p.pods, column{query.Pods, "PODS", w.pods, true, c.rightCell(podsText)})
	add(true, c.usageColumn(p.usage, resource{query.CPU, "CPU", w.cpu, nodeCPU, cpuText}))
	add(true, c.usageColumn(p.usage, resource{query.Memory, "MEMORY", w.memory, nodeMemory, memoryText}))
	add(p.gpu, c.usageColumn(p.gpuUsage, resource{query.GPU, "GPU", w.gpu, nodeGPU, gpuText}))
	return cols
}

// usageLayout selects the text beside a usage column's percentage.
type usageLayout struct {
	bar     int // width of the bar, 0 for none
	amounts bool
}

// resource names the resource that a usage column shows: CPU, memory or GPUs.
type resource struct {
	by     query.Column
	title  string
	widest int // width of the widest amounts
	usage  func(*state.Node) state.Usage
	text   func(*state.Node) string // the amounts
}

func nodeCPU(n *state.Node) state.Usage    { return n.CPU }
func nodeMemory(n *state.Node) state.Usage { return n.Memory }
func nodeGPU(n *state.Node) state.Usage    { return n.GPU }

// usageColumn draws bar, percentage and, if there is room, the amounts.
func (c nodeColumns) usageColumn(u usageLayout, r resource) column {
	width := u.bar + percentWidth
	if u.amounts {
		width += 1 + r.widest
	}
	title := r.title
	if len(title) >= width { // with room for the arrow
		title = title[:3]
	}
	cell := func(n *state.Node, _ int) string {
		if r.usage(n) == (state.Usage{}) { // the node does not have the resource
			return c.st.Dim.Render(c.st.Fit(strings.Repeat(" ", u.bar)+c.st.FitRight("-", percentWidth), width))
		}
		f, faint := r.usage(n).Fraction(), !n.Worker
		s := c.st.Bar(u.bar, f, faint) + c.st.Alarm(f).Faint(faint).Render(c.st.FitRight(state.Percent(f), percentWidth))
		if u.amounts {
			s += " " + c.st.Dim.Render(c.st.FitRight(r.text(n), r.widest))
		}
		return s
	}
	return column{by: r.by, title: title, width: width, right: u.bar == 0, cell: cell}
}

// widths are the widths of the columns' content, in cells. They are taken over all nodes, not
// only the visible ones, so that scrolling does not move the columns.
type widths struct{ name, status, role, age, version, pods, cpu, memory, gpu int }

func (c nodeColumns) measure() widths {
	w := widths{ // a title and the arrow of the sort
		name: len("NAME") + 1, status: len("STATUS") + 1, role: len("ROLE") + 1,
		age: len("23h59m"), version: len("VERSION") + 1, pods: len("PODS") + 1,
	}
	for i := range c.frame.Nodes {
		n := &c.frame.Nodes[i]
		w.name = max(w.name, len(n.Name))
		w.status = max(w.status, len(shortStatus(n)))
		w.role = max(w.role, len(n.Role()))
		w.age = max(w.age, len(state.Age(c.frame.Time, n.Created)))
		w.version = max(w.version, len(n.Version))
		w.pods = max(w.pods, len(podsText(n)))
		w.cpu = max(w.cpu, len(cpuText(n)))
		w.memory = max(w.memory, len(memoryText(n)))
		w.gpu = max(w.gpu, len(gpuText(n)))
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
	return state.Devices(n.GPU.Requested) + "/" + state.Devices(n.GPU.Allocatable)
}

func podsText(n *state.Node) string {
	return fmt.Sprintf("%d/%d", n.Pods.Requested, n.Pods.Allocatable)
}

// shortStatus is the status in a word that fits a narrow column: "Cordoned" for kubectl's
// "Ready,SchedulingDisabled".
func shortStatus(n *state.Node) string {
	if n.Cordoned && n.Ready {
		return "Cordoned"
	}
	status, _, _ := strings.Cut(n.Status, ",")
	return status
}

func (c nodeColumns) nameCell(n *state.Node, width int) string {
	text := c.st.Fit(n.Name, width)
	if !n.Worker {
		return c.st.Dim.Render(text)
	}
	return text
}

func (c nodeColumns) statusCell(n *state.Node, width int) string {
	text := c.st.Fit(shortStatus(n), width)
	switch {
	case !n.Ready:
		return c.st.Bad.Render(text)
	case n.Cordoned:
		return c.st.Warn.Render(text)
	}
	return c.st.Plain.Faint(!n.Worker).Render(text)
}

func (c nodeColumns) plainCell(text func(*state.Node) string) func(*state.Node, int) string {
	return func(n *state.Node, width int) string { return c.st.Dim.Render(c.st.Fit(text(n), width)) }
}

func (c nodeColumns) rightCell(text func(*state.Node) string) func(*state.Node, int) string {
	return func(n *state.Node, width int) string {
		s := c.st.FitRight(text(n), width)
		if !n.Worker {
			return c.st.Dim.Render(s)
		}
		return s
	}
}

// textColumn is a column of text, as wide as its text if the window has room.
type textColumn struct {
	title  string
	right  bool // right-aligned
	middle bool // cut in the middle: the ends of pods' names differ
	extra  bool // left out unless there is room for it
	cell   func(row int) string
	style  func(row int) lipgloss.Style // nil for plain
}

// measuredRows is the number of further rows, besides the drawn ones, that determine the column widths: a list of all pods may have
// 100,000.
const measuredRows = 2000

// textTable draws the titles of the columns, and the rows with index from up to, but not including, to, of rows in all.
// Where the window is too narrow, the widest columns are cut, and in the end the last ones left out.
func (c *canvas) textTable(cols []textColumn, rows, from, to int) []string {
	gap, room := len(c.gap()), c.width
	wide := make([]int, len(cols))
	for i, col := range cols {
		wide[i] = ansi.StringWidth(col.title)
		for row := range rows {
			if row < measuredRows || row >= from && row < to {
				wide[i] = max(wide[i], min(ansi.StringWidth(col.cell(row)), c.width))
			}
		}
	}
	c.shrink(cols, wide)
	for i, col := range cols {
		if !col.extra {
			room -= wide[i] + gap
			if wide[i] == 0 { // a column that matters more has no room
				room = 0
				break
			}
		}
	}
	for i, col := range cols {
		switch {
		case !col.extra:
		case wide[i] <= room:
			room -= wide[i] + gap
		default:
			wide[i] = 0
		}
	}
	line := func(text func(i int) string) string {
		var cells []string
		for i := range cols {
			if wide[i] > 0 {
				cells = append(cells, text(i))
			}
		}
		return strings.Join(cells, c.gap())
	}
	place := func(i int, text string) string {
		switch {
		case cols[i].right:
			return c.st.FitRight(text, wide[i])
		case cols[i].middle:
			return c.st.FitMiddle(text, wide[i])
		}
		return c.st.Fit(text, wide[i])
	}
	lines := []string{c.st.Dim.Render(line(func(i int) string { return place(i, cols[i].title) }))}
	for row := from; row < to; row++ {
		lines = append(lines, line(func(i int) string {
			text := place(i, state.Printable(cols[i].cell(row)))
			if cols[i].style != nil {
				return cols[i].style(row).Render(text)
			}
			return text
		}))
	}
	return lines
}

// shrink cuts the widest of the columns that are always shown until all fit. Columns that would be too narrow to read get
// no width, the last ones first.
func (c *canvas) shrink(cols []textColumn, wide []int) {
	const least = 8
	for {
		sum, widest, last := -len(c.gap()), -1, -1
		for i := range cols {
			if cols[i].extra || wide[i] == 0 {
				continue
			}
			sum, last = sum+wide[i]+len(c.gap()), i
			if widest < 0 || wide[i] > wide[widest] {
				widest = i
			}
		}
		switch {
		case last < 0 || sum <= c.width:
			return
		case wide[widest] > least:
			wide[widest]--
		case widest == last && sum == wide[last]:
			wide[last] = max(c.width, 1)
			return
		default:
			wide[last] = 0
		}
	}
}
