package view

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// nodesScreen lists the nodes with their requested CPU, memory and GPUs. A key for each column
// sorts by it.
type nodesScreen struct {
	list[state.Node]
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
	s := &nodesScreen{
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
	s.list = list[state.Node]{about: s.description(), noun: "node", none: s.noNodes, rows: s.nodes, id: nodeName, to: nodeTarget,
		columns: func(c *canvas) []column[state.Node] { return nodeColumns{c, s.sort, s.arrow(c)}.layout() }}
	return s
}

func (s *nodesScreen) description() description {
	d := description{
		name: "nodes", hints: [][2]string{{"C M O N", "sort"}, {"r", "reverse"}},
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

// open implements screen: it shows the nodes of a zone, with the zone as the filter.
func (*nodesScreen) open(to target) bool { return to.zone != "" }

func (s *nodesScreen) nodes(c *canvas, f query.Filter) (shown []state.Node, total int) {
	s.filtered = !f.Empty()
	shown, total = selected(f, c.frame.Nodes, query.NodeRow)
	s.sort.Apply(shown)
	return shown, total
}

func (s *nodesScreen) noNodes(*canvas) string {
	if s.filtered {
		return "no node passes the filter"
	}
	return "no nodes in this cluster"
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
