package view

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

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
type nodeColumns struct {
	*canvas
	sort  query.Sort
	arrow string // of its direction
}

// layout returns the columns that the window has room for, with their widths. The one that orders the rows has an arrow.
func (c nodeColumns) layout() []column[state.Node] {
	w := c.measure()
	p := c.plan(w)
	age := func(n *state.Node) string { return state.Age(c.frame.Time, n.Created) }
	var cols []column[state.Node]
	add := func(fits bool, by query.Column, col column[state.Node]) {
		if by == c.sort.Column {
			col.title, col.strong = col.title+c.arrow, true
		}
		if fits {
			cols = append(cols, col)
		}
	}
	add(true, query.Name, column[state.Node]{title: "NAME", width: p.name, cell: nodeName, style: c.faintStyle})
	add(p.status, query.Status, column[state.Node]{title: "STATUS", width: w.status, cell: shortStatus, style: c.statusStyle})
	add(p.role > 0, query.Role, column[state.Node]{title: "ROLE", width: p.role, cell: (*state.Node).Role, style: c.dim})
	add(p.age, query.Age, column[state.Node]{title: "AGE", width: w.age, right: true, cell: age, style: c.faintStyle})
	add(p.version, query.Version, column[state.Node]{
		title: "VERSION", width: w.version, cell: func(n *state.Node) string { return n.Version }, style: c.dim,
	})
	add(p.pods, query.Pods, column[state.Node]{title: "PODS", width: w.pods, right: true, cell: podsText, style: c.faintStyle})
	add(true, query.CPU, c.usageColumn(p.usage, resource{"CPU", w.cpu, nodeCPU, cpuText}))
	add(true, query.Memory, c.usageColumn(p.usage, resource{"MEMORY", w.memory, nodeMemory, memoryText}))
	add(p.gpu, query.GPU, c.usageColumn(p.gpuUsage, resource{"GPU", w.gpu, nodeGPU, gpuText}))
	return cols
}

// usageLayout selects the text beside a usage column's percentage.
type usageLayout struct {
	bar     int // width of the bar, 0 for none
	amounts bool
}

// resource names the resource that a usage column shows: CPU, memory or GPUs.
type resource struct {
	title  string
	widest int // width of the widest amounts
	usage  func(*state.Node) state.Usage
	text   func(*state.Node) string // the amounts
}

func nodeCPU(n *state.Node) state.Usage    { return n.CPU }
func nodeMemory(n *state.Node) state.Usage { return n.Memory }
func nodeGPU(n *state.Node) state.Usage    { return n.GPU }

// usageColumn draws bar, percentage and, if there is room, the amounts.
func (c nodeColumns) usageColumn(u usageLayout, r resource) column[state.Node] {
	width := u.bar + percentWidth
	if u.amounts {
		width += 1 + r.widest
	}
	title := r.title
	if len(title) >= width { // with room for the arrow
		title = title[:3]
	}
	draw := func(n *state.Node, _ int) string {
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
	return column[state.Node]{title: title, width: width, right: u.bar == 0, draw: draw}
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
// "Ready,SchedulingDisabled", and "Moving" where pods are moved.
func shortStatus(n *state.Node) string {
	if n.Ready && strings.HasSuffix(n.Status, state.Moving) {
		return "Moving"
	}
	if n.Cordoned && n.Ready {
		return "Cordoned"
	}
	status, _, _ := strings.Cut(n.Status, ",")
	return status
}

func nodeName(n *state.Node) string { return n.Name }

// faintStyle dims nodes on which ordinary pods do not run.
func (c nodeColumns) faintStyle(n *state.Node) lipgloss.Style {
	if n.Worker {
		return c.st.Plain
	}
	return c.st.Dim
}

func (c nodeColumns) dim(*state.Node) lipgloss.Style { return c.st.Dim }

func (c nodeColumns) statusStyle(n *state.Node) lipgloss.Style {
	switch {
	case !n.Ready:
		return c.st.Bad
	case n.Cordoned:
		return c.st.Warn
	}
	return c.st.Plain.Faint(!n.Worker)
}
