package view

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
)

// nodesScreen lists the nodes with their requested CPU, memory and GPUs. A key for each column
// sorts by it.
type nodesScreen struct {
	nodeList
	filtered             bool
	sort                 query.Sort
	columnKeys           []columnKey
	left, right, reverse key.Binding
}

// columnKey sorts by a column; the same key again reverses the order.
type columnKey struct {
	column query.Column
	key    key.Binding
}

func newNodesScreen(sort query.Sort, a arrows) *nodesScreen {
	return &nodesScreen{
		sort: sort,
		columnKeys: []columnKey{
			{query.Name, bind("N", "sort by name", "N")},
			{query.Status, bind("T", "sort by status", "T")},
			{query.Age, bind("A", "sort by age", "A")},
			{query.Pods, bind("O", "sort by pods", "O")},
			{query.CPU, bind("C", "sort by CPU", "C")},
			{query.Memory, bind("M", "sort by memory", "M")},
			{query.GPU, bind("D", "sort by GPU devices", "D")},
		},
		left:    bind(a.left+" <", "sort by the column before", "left", "<"),
		right:   bind(a.right+" >", "sort by the next column", "right", ">"),
		reverse: bind("r", "reverse the order", "r"),
	}
}

func (s *nodesScreen) describe() description {
	d := description{
		name: "nodes", heading: 1, hints: [][2]string{{"C M O N", "sort"}, {"r", "reverse"}},
		notes: []note{
			{title: "Filter", text: "  words that must all match; !word must not", lines: []string{
				"  worker !notready      name, status, role, zone, version or GPU model",
				"  cpu>80% mem<=16Gi     requested, as a share or an amount",
			}},
			{title: "Figures", lines: []string{
				"  CPU, MEM, GPU  requested, of what is allocatable; at the top: all workers",
				"  CPU spread     standard deviation of the workers' CPU share",
				"  bound/s        pods bound per second in the last 10 s, by scheduler",
			}},
		},
	}
	for _, c := range s.columnKeys {
		d.keys = append(d.keys, c.key)
	}
	d.keys = append(d.keys, s.left, s.right, s.reverse)
	return d
}

// open implements opened: it shows the nodes of a zone, with the zone as the filter.
func (*nodesScreen) open(to target) bool { return to.zone != "" }

func (s *nodesScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.frame.Nodes, query.NodeRow)
	s.filtered = !f.Empty()
	s.sort.Apply(s.shown)
}

// press sorts.
func (s *nodesScreen) press(c *canvas, k tea.KeyPressMsg) {
	cols := sortColumns(c)
	at := max(slices.Index(cols, s.sort.Column), 0)
	switch {
	case key.Matches(k, s.reverse):
		s.sort.Desc = !s.sort.Desc
	case key.Matches(k, s.left):
		s.sort = query.By(cols[(at+len(cols)-1)%len(cols)])
	case key.Matches(k, s.right):
		s.sort = query.By(cols[(at+1)%len(cols)])
	default:
		i := slices.IndexFunc(s.columnKeys, func(c columnKey) bool {
			return key.Matches(k, c.key) && slices.Contains(cols, c.column)
		})
		if i < 0 {
			return
		}
		if by := s.columnKeys[i].column; by == s.sort.Column {
			s.sort.Desc = !s.sort.Desc
		} else {
			s.sort = query.By(by)
		}
	}
}

// sortColumns returns the columns to sort by, without the GPUs if the cluster has none.
func sortColumns(c *canvas) []query.Column {
	return slices.DeleteFunc(query.Columns(), func(col query.Column) bool { return col == query.GPU && !c.frame.HasGPU() })
}

func (s *nodesScreen) order(c *canvas) string {
	return "by " + string(s.sort.Column) + " " + s.arrow(c)
}

// arrow is the sign for the direction of the order.
func (s *nodesScreen) arrow(c *canvas) string {
	if s.sort.Desc {
		return c.st.Down
	}
	return c.st.Up
}

func (s *nodesScreen) size(c *canvas) (shown, total int) { return len(s.shown), len(c.frame.Nodes) }

func (s *nodesScreen) empty(*canvas) string {
	if s.filtered {
		return "no node passes the filter"
	}
	return "no nodes in this cluster"
}

func (s *nodesScreen) draw(c *canvas, from, to int) []string {
	cols := nodeColumns{c}.layout()
	lines := []string{s.heading(c, cols)}
	for i := range s.shown[from:to] {
		cells := make([]string, len(cols))
		for j, col := range cols {
			cells[j] = col.cell(&s.shown[from+i], col.width)
		}
		lines = append(lines, strings.Join(cells, c.gap()))
	}
	return lines
}

// heading returns the titles of the columns, with an arrow at the one that orders the rows.
func (s *nodesScreen) heading(c *canvas, cols []column) string {
	cells := make([]string, len(cols))
	for i, col := range cols {
		title, style := col.title, c.st.Dim
		if col.by == s.sort.Column {
			title, style = title+s.arrow(c), c.st.Bold
		}
		if col.right {
			cells[i] = style.Render(c.st.FitRight(title, col.width))
		} else {
			cells[i] = style.Render(c.st.Fit(title, col.width))
		}
	}
	return strings.Join(cells, c.gap())
}
