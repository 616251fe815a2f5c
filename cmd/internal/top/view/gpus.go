package view

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// gpuScreen lists the nodes with GPUs: their model, and the requested part of each device.
type gpuScreen struct {
	nodeList
	total int
}

func (*gpuScreen) describe() description {
	return description{
		name: "devices", heading: 2, open: bind("d", "GPU devices", "d"),
		notes: []note{{title: "GPU devices", lines: []string{
			"  81   per cent of the device that pods request; a dot: idle; +4: four more",
		}}},
	}
}

func (s *gpuScreen) update(c *canvas, f query.Filter) {
	nodes := slices.DeleteFunc(slices.Clone(c.frame.Nodes), func(n state.Node) bool { return n.Devices == nil })
	s.total = len(nodes)
	s.shown = query.Select(f, nodes, query.NodeRow)
}

func (*gpuScreen) press(*canvas, tea.KeyPressMsg)    {}
func (*gpuScreen) order(*canvas) string              { return "by name" }
func (s *gpuScreen) size(*canvas) (shown, total int) { return len(s.shown), s.total }
func (s *gpuScreen) draw(c *canvas, from, to int) []string {
	w := s.columns(c)
	heading := w.row(c, "NODE", "MODEL", "GIVEN") + c.gap() + "% OF EACH DEVICE"
	lines := []string{s.models(c), c.st.Dim.Render(c.st.Fit(heading, c.width))}
	for i := range s.shown[from:to] {
		n := &s.shown[from+i]
		lines = append(lines, w.row(c, n.Name, orDash(n.GPUModel), gpuText(n))+c.gap()+w.cells(c, n.Devices))
	}
	return lines
}

func (s *gpuScreen) empty(*canvas) string {
	if s.total > 0 {
		return "no node with GPUs passes the filter"
	}
	return "no node has GPUs"
}

// models sums up the devices of each model: "G2 88.5/96 · T4 4/16".
func (s *gpuScreen) models(c *canvas) string {
	var parts []string
	for _, m := range state.ModelsOf(s.shown) {
		parts = append(parts, fmt.Sprintf("%s %s", orDash(m.Name),
			c.st.Bold.Render(state.Devices(m.GPU.Requested)+"/"+state.Devices(m.GPU.Allocatable))))
	}
	return c.st.Join(parts, c.width)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// gpuColumns are the widths of the columns, in cells. The model is left out if its width is 0.
type gpuColumns struct{ name, model, given, devices int }

// deviceWidth is the width of a device's figure and the space before it.
const deviceWidth = 4

// columns fits the columns into the window. The devices get the space that the others leave.
func (s *gpuScreen) columns(c *canvas) gpuColumns {
	w := gpuColumns{name: len("NODE"), model: len("MODEL"), given: len("GIVEN")}
	for i := range s.shown {
		n := &s.shown[i]
		w.name, w.model, w.given = max(w.name, len(n.Name)), max(w.model, len(n.GPUModel)), max(w.given, len(gpuText(n)))
	}
	w.name, w.model = min(w.name, max(c.width/4, 8)), min(w.model, max(c.width/8, 5))
	if c.width < 50 {
		w.model = 0
	}
	w.devices = max(c.width-w.name-w.given-2*len(c.gap()), 0)
	if w.model > 0 {
		w.devices = max(w.devices-w.model-len(c.gap()), 0)
	}
	return w
}

func (w gpuColumns) row(c *canvas, name, model, given string) string {
	s := c.st.Fit(name, w.name)
	if w.model > 0 {
		s += c.gap() + c.st.Fit(model, w.model)
	}
	return s + c.gap() + c.st.FitRight(given, w.given)
}

// cells draws the devices that there is room for, and the number of the others.
func (w gpuColumns) cells(c *canvas, devices []int64) string {
	room := w.devices / deviceWidth
	rest := ""
	if len(devices) > room {
		room = max(room-1, 0)
		rest = c.st.Dim.Render(c.st.FitRight(fmt.Sprintf("+%d", len(devices)-room), deviceWidth))
	}
	var b strings.Builder
	for _, used := range devices[:min(room, len(devices))] {
		if used == 0 {
			b.WriteString(c.st.Dim.Render(c.st.FitRight(c.st.Idle, deviceWidth)))
		} else {
			b.WriteString(c.st.FitRight(state.DevicePercent(used), deviceWidth))
		}
	}
	return b.String() + rest
}
