package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// gpuScreen lists the nodes with GPUs: their model, and the requested part of each device.
func gpuScreen() screen {
	s := &list[state.Node]{
		about: description{
			name: "devices", open: bind("d", "GPU devices", "d"),
			notes: []note{{title: "GPU devices", lines: []string{
				"  81   per cent of the device that pods request; a dot: idle; +4: four more",
			}}},
		},
		sorted: "by name", noun: "node with GPUs", none: always("no node has GPUs"), id: nodeName, to: nodeTarget, columns: gpuColumns,
		rows: func(c *canvas, f query.Filter) ([]state.Node, int) {
			nodes := slices.DeleteFunc(slices.Clone(c.frame.Nodes), func(n state.Node) bool { return n.Devices == nil })
			return selected(f, nodes, query.NodeRow)
		},
	}
	s.above = func(c *canvas) []string { return []string{models(c, s.shown)} }
	return s
}

// models sums up the devices of each model: "G2 88.5/96 · T4 4/16".
func models(c *canvas, nodes []state.Node) string {
	var parts []string
	for _, m := range state.ModelsOf(nodes) {
		parts = append(parts, fmt.Sprintf("%s %s", orDash(m.Name),
			c.st.Bold.Render(state.Devices(m.GPU.Requested)+"/"+state.Devices(m.GPU.Allocatable))))
	}
	return c.st.Join(parts, c.width)
}

func orDash(s string) string { return cmp.Or(s, "-") }

// gpuColumns are the columns of the nodes with GPUs. A narrow window leaves out the model.
func gpuColumns(c *canvas) []column[state.Node] {
	cols := []column[state.Node]{
		{title: "NODE", most: max(c.width/4, 8), cell: nodeName},
		{title: "MODEL", most: max(c.width/8, 5), cell: func(n *state.Node) string { return orDash(n.GPUModel) }},
		{title: "GIVEN", right: true, cell: gpuText},
		{title: "% OF EACH DEVICE", rest: true, draw: c.devices},
	}
	if c.width < 50 {
		cols = slices.Delete(cols, 1, 2)
	}
	return cols
}

// deviceWidth is the width of a device's figure and the space before it.
const deviceWidth = 4

// devices draws the devices of a node that there is room for, and the number of the others.
func (c *canvas) devices(n *state.Node, width int) string {
	room := width / deviceWidth
	rest := ""
	if len(n.Devices) > room {
		room = max(room-1, 0)
		rest = c.st.Dim.Render(c.st.FitRight(fmt.Sprintf("+%d", len(n.Devices)-room), deviceWidth))
	}
	var b strings.Builder
	for _, used := range n.Devices[:min(room, len(n.Devices))] {
		if used == 0 {
			b.WriteString(c.st.Dim.Render(c.st.FitRight(c.st.Idle, deviceWidth)))
		} else {
			b.WriteString(c.st.FitRight(state.DevicePercent(used), deviceWidth))
		}
	}
	return b.String() + rest
}
