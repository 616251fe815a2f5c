package view

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/each"
)

// heatScreen is the heat map: a cell for each worker, zone by zone, as large as the window allows. If the window has
// less room than the cluster has nodes, each cell is the mean of several.
type heatScreen struct {
	list[state.Node]      // the workers that pass the filter, by zone and name
	by               int  // index in heats
	gpus             bool // a worker has GPUs
	column           int  // of the chosen cell in the chosen row
	left, right, tab key.Binding
}

// heats are the contents of the map's cells.
var heats = []struct {
	name string
	of   func(n *state.Node) (f float64, known bool)
}{
	{"CPU requested", func(n *state.Node) (float64, bool) { return n.CPU.Fraction(), true }},
	{"memory requested", func(n *state.Node) (float64, bool) { return n.Memory.Fraction(), true }},
	{"GPU devices requested", func(n *state.Node) (float64, bool) { return n.GPU.Fraction(), n.GPU != state.Usage{} }},
}

func newHeatScreen() *heatScreen {
	s := &heatScreen{
		left: bind("← →", "map: the cell beside", "left"), right: bind("", "", "right"),
		tab: bind("Tab", "map: the next figure", "tab"),
	}
	s.list = list[state.Node]{rows: s.nodes, texts: (*state.Node).Texts, noun: "node", none: always("no nodes in this cluster"),
		about: description{
			name: "map", grid: true, open: bind("m", "heat map of the nodes", "m"),
			keys: []key.Binding{s.left, s.tab}, hints: [][2]string{{"Tab", "next figure"}},
			notes: []note{{title: "Heat map", lines: []string{
				"  a cell for each worker, zone by zone; of several nodes, their mean",
				"  its height, or in ASCII its digit, is the share of what is allocatable",
			}}},
		}}
	return s
}

// workers returns the nodes that ordinary pods may run on, or all if there is none.
func workers(nodes []state.Node) []state.Node {
	if slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Worker }) {
		return slices.DeleteFunc(slices.Clone(nodes), func(n state.Node) bool { return !n.Worker })
	}
	return slices.Clone(nodes)
}

func (s *heatScreen) nodes(c *canvas) []state.Node {
	all := workers(c.frame.Nodes)
	slices.SortStableFunc(all, func(a, b state.Node) int { return state.CompareNatural(a.Zone, b.Zone) })
	s.gpus = slices.ContainsFunc(all, func(n state.Node) bool { return n.GPU != state.Usage{} })
	return all
}

func (s *heatScreen) press(_ *canvas, k tea.KeyPressMsg) {
	switch {
	case key.Matches(k, s.left):
		s.column = max(s.column-1, 0)
	case key.Matches(k, s.right):
		s.column++
	case key.Matches(k, s.tab):
		s.by = (s.by + 1) % len(heats)
		if s.by == len(heats)-1 && !s.gpus {
			s.by = 0
		}
	}
}

func (s *heatScreen) order(*canvas) string { return heats[s.by].name }
func (*heatScreen) heading(*canvas) int    { return 2 }

func (s *heatScreen) size(c *canvas) (shown, total int) {
	n := len(s.layout(c).lines)
	return n, n
}

func (s *heatScreen) opens(c *canvas, row int) target {
	l := s.layout(c)
	return target{node: s.cellOf(l.cell(l.lines[row], s.at(l, row))).fullest.Name}
}

// at is the chosen cell of a row.
func (s *heatScreen) at(l heatLayout, row int) int {
	return min(s.column, l.cells(l.lines[row])-1)
}

// heatCell is the summary of the nodes in a cell.
type heatCell struct {
	nodes   []state.Node
	mean    float64 // over those whose heat is known
	known   bool    // of any
	fullest *state.Node
	broken  int // nodes that are not ready
}

func (s *heatScreen) cellOf(nodes []state.Node) heatCell {
	out, most, count := heatCell{nodes: nodes, fullest: &nodes[0]}, -1.0, 0
	for i := range nodes {
		if !nodes[i].Ready {
			out.broken++
		}
		if f, known := heats[s.by].of(&nodes[i]); known {
			out.mean, out.known = out.mean+f, true
			if count++; f > most {
				most, out.fullest = f, &nodes[i]
			}
		}
	}
	out.mean /= float64(max(count, 1))
	return out
}

func (s *heatScreen) draw(c *canvas, from, to int) []string {
	l := s.layout(c)
	lines := []string{s.legend(c, l), ""}
	for row := from; row < to; row++ {
		line, text := l.lines[row], ""
		if l.label > 0 {
			label := ""
			if row == 0 || l.lines[row-1].zone != line.zone || row == from {
				label = orDash(line.zone)
			}
			text = c.st.Dim.Render(c.st.Fit(label, l.label-1)) + " "
		}
		for i := range l.cells(line) {
			cell := s.cellOf(l.cell(line, i))
			drawn := s.drawCell(c, l, cell)
			if row == c.cursor && i == s.at(l, row) {
				drawn = c.st.Chosen.Render(ansi.Strip(drawn))
				lines[1] = c.st.Fit(s.words(c, cell), c.width)
			}
			text += drawn
		}
		lines = append(lines, text)
	}
	return lines
}

// drawCell draws a cell in the width of the layout.
func (s *heatScreen) drawCell(c *canvas, l heatLayout, cell heatCell) string {
	sign, percent, style := heatSign(cell.mean), state.Percent(cell.mean), c.st.Level(cell.mean)
	switch {
	case cell.broken == len(cell.nodes):
		sign, percent, style = "x", "x", c.st.Bad
	case !cell.known:
		sign, percent, style = "?", "?", c.st.Dim
	case cell.mean == 0:
		style = c.st.Dim
	}
	switch l.form {
	case heatNames:
		return style.Render(strings.Repeat(sign, 2)) + " " + c.st.Fit(cell.nodes[0].Name, l.width-9) +
			style.Render(c.st.fitRight(percent, 5)) + " "
	case heatFigures:
		return style.Render(sign+c.st.fitRight(percent, 4)) + " "
	}
	return style.Render(strings.Repeat(sign, l.width))
}

// legend explains the signs and the number of nodes in a cell.
func (s *heatScreen) legend(c *canvas, l heatLayout) string {
	scale := ""
	for f := 0.5; f < float64(len(heatSigns)); f++ {
		f := f / float64(len(heatSigns))
		scale += c.st.Level(f).Render(heatSign(f))
	}
	parts := []string{
		c.st.Bold.Render(heats[s.by].name), "0% " + idle, "to 100% " + scale, c.st.Bad.Render(over) + " more",
		c.st.Bad.Render("x") + " not ready", "? unknown",
	}
	if l.each > 1 {
		parts = slices.Insert(parts, 1, fmt.Sprintf("cell: mean of %d nodes", l.each))
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}

// words describes the chosen cell.
func (s *heatScreen) words(c *canvas, cell heatCell) string {
	n := cell.fullest
	if len(cell.nodes) > 1 {
		f, _ := heats[s.by].of(n)
		parts := []string{
			c.st.Bold.Render(cell.nodes[0].Name + ellipsis + cell.nodes[len(cell.nodes)-1].Name), "mean " + state.Percent(cell.mean),
			fmt.Sprintf("fullest %s %s", n.Name, state.Percent(f)),
		}
		if cell.broken > 0 {
			parts = append(parts, fmt.Sprintf("%d not ready", cell.broken))
		}
		return c.st.Join(parts, c.width)
	}
	parts := []string{
		c.st.Bold.Render(n.Name), shortStatus(n), "CPU " + state.Percent(n.CPU.Fraction()), "memory " + state.Percent(n.Memory.Fraction()),
	}
	if n.GPU != (state.Usage{}) {
		parts = append(parts, "GPU "+gpuText(n))
	}
	if n.Used != nil {
		parts = append(parts, "CPU used "+state.Percent(n.UsedCPU().Fraction()))
	}
	return c.st.Join(append(parts, podsText(n)+" pods", orDash(n.Zone)), c.width)
}

// heatForm is the level of detail of the map's cells.
type heatForm int

const (
	heatNames   heatForm = iota // the node's name, and the figure in per cent
	heatFigures                 // the figure
	heatSquares                 // a sign of two cells of the window
	heatSmall                   // a sign
)

// heatLayout is the division of a window.
type heatLayout struct {
	form   heatForm
	width  int // of a cell, in cells of the window
	perRow int // cells
	each   int // nodes of a cell
	label  int // width of the zones' names; 0 if they are not shown
	lines  []heatLine
}

// heatLine is the nodes of a line of the map. All are of one zone.
type heatLine struct {
	zone  string
	nodes []state.Node
}

func (l *heatLayout) cells(line heatLine) int { return (len(line.nodes) + l.each - 1) / l.each }

func (l *heatLayout) cell(line heatLine, i int) []state.Node {
	return line.nodes[i*l.each : min((i+1)*l.each, len(line.nodes))]
}

// layout chooses the most detailed form with which all nodes are in the window. If no form suffices, each cell gets as many nodes as
// needed.
func (s *heatScreen) layout(c *canvas) heatLayout {
	zones, name, label := s.zones(), 1, 0
	for i := range s.shown {
		name = max(name, min(len(s.shown[i].Name), 24))
	}
	if len(zones) > 1 && c.width >= 40 {
		for _, z := range zones {
			label = max(label, min(len(orDash(z.zone)), c.width/5)+1)
		}
	}
	l := heatLayout{each: 1, label: label}
	for form, width := range []int{name + 9, 6, 2, 1} {
		l.form, l.width, l.perRow = heatForm(form), width, max((c.width-label)/width, 1)
		if l.height(zones) <= max(c.space, len(zones)) && c.width-label >= width {
			break
		}
	}
	for l.height(zones) > max(c.space, len(zones)) {
		l.each++
	}
	for _, z := range zones {
		for line := range slices.Chunk(z.nodes, l.perRow*l.each) {
			l.lines = append(l.lines, heatLine{z.zone, line})
		}
	}
	return l
}

// height is the number of lines that the zones take.
func (l *heatLayout) height(zones []heatLine) int {
	per := l.perRow * l.each
	return each.Sum(zones, func(z heatLine) int { return (len(z.nodes) + per - 1) / per })
}

// zones splits the nodes.
func (s *heatScreen) zones() (out []heatLine) {
	for from, i := 0, 1; i <= len(s.shown); i++ {
		if i == len(s.shown) || s.shown[i].Zone != s.shown[from].Zone {
			out, from = append(out, heatLine{s.shown[from].Zone, s.shown[from:i]}), i
		}
	}
	return out
}
