package view

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
)

type keyMap struct {
	up, down, pageUp, pageDown, home, end key.Binding
	filter, clear, pending, help, quit    key.Binding
	left, right, reverse                  key.Binding
	columns                               []columnKey
}

// columnKey orders by a column with one key; the same key again turns the order round.
type columnKey struct {
	column query.Column
	key    key.Binding
}

func newKeyMap(unicode bool) keyMap {
	up, down, left, right := "↑", "↓", "←", "→"
	if !unicode {
		up, down, left, right = "up", "down", "left", "right"
	}
	bind := func(label, desc string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, desc))
	}
	return keyMap{
		up:       bind(up+" k", "one line up", "up", "k"),
		down:     bind(down+" j", "one line down", "down", "j"),
		pageUp:   bind("PgUp", "one page up", "pgup", "ctrl+b"),
		pageDown: bind("PgDn", "one page down", "pgdown", "ctrl+f", "space"),
		home:     bind("Home", "first line", "home"),
		end:      bind("End", "last line", "end"),
		filter:   bind("/", "filter", "/"),
		clear:    bind("Esc", "clear the filter, go back", "esc"),
		pending:  bind("p", "pending pods", "p"),
		help:     bind("?", "help", "?"),
		quit:     bind("q", "quit", "q"),
		left:     bind(left+" <", "sort by the column before", "left", "<"),
		right:    bind(right+" >", "sort by the next column", "right", ">"),
		reverse:  bind("r", "reverse the order", "r"),
		columns: []columnKey{
			{query.Name, bind("n", "sort by name", "n")},
			{query.Status, bind("t", "sort by status", "t")},
			{query.Age, bind("a", "sort by age", "a")},
			{query.Pods, bind("o", "sort by pods", "o")},
			{query.CPU, bind("c", "sort by CPU", "c")},
			{query.Memory, bind("m", "sort by memory", "m")},
			{query.GPU, bind("g", "sort by GPU", "g")},
		},
	}
}

// scroll moves in the list on the screen and tells whether the key was one for that.
func (m *Model) scroll(k tea.KeyPressMsg) bool {
	l, page := m.list(), max(m.rows(), 1)
	switch {
	case key.Matches(k, m.keys.up):
		l.offset--
	case key.Matches(k, m.keys.down):
		l.offset++
	case key.Matches(k, m.keys.pageUp):
		l.offset -= page
	case key.Matches(k, m.keys.pageDown):
		l.offset += page
	case key.Matches(k, m.keys.home):
		l.offset = 0
	case key.Matches(k, m.keys.end):
		l.offset = m.length()
	default:
		return false
	}
	return true
}

// settle brings what depends on window, frame and screen up to date: the header, and with
// it how many rows are left. The last page stays full.
func (m *Model) settle() {
	m.header = m.buildHeader()
	l := m.list()
	l.offset = max(0, min(l.offset, m.length()-m.rows()))
}

// length is how many lines the list on the screen has in all.
func (m *Model) length() int {
	switch m.screen {
	case pendingScreen:
		return len(m.pending)
	case helpScreen:
		return len(m.helpLines(m.width))
	}
	return len(m.nodes)
}

func (m *Model) resort(k tea.KeyPressMsg) {
	cols := m.sortColumns()
	at := max(slices.Index(cols, m.sort.Column), 0)
	switch {
	case key.Matches(k, m.keys.reverse):
		m.sort.Desc = !m.sort.Desc
	case key.Matches(k, m.keys.left):
		m.sort = query.By(cols[(at+len(cols)-1)%len(cols)])
	case key.Matches(k, m.keys.right):
		m.sort = query.By(cols[(at+1)%len(cols)])
	default:
		i := slices.IndexFunc(m.keys.columns, func(c columnKey) bool {
			return key.Matches(k, c.key) && slices.Contains(cols, c.column)
		})
		if i < 0 {
			return
		}
		if by := m.keys.columns[i].column; by == m.sort.Column {
			m.sort.Desc = !m.sort.Desc
		} else {
			m.sort = query.By(by)
		}
	}
	m.arrange()
}

// sortColumns leaves out the GPUs of a cluster that has none.
func (m *Model) sortColumns() []query.Column {
	return slices.DeleteFunc(query.Columns(), func(c query.Column) bool { return c == query.GPU && !m.frame.HasGPU() })
}
