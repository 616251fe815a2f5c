package view

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// minRows is how many rows of a list are kept when the header has to give way.
const minRows = 3

// View implements tea.Model: at most height lines of at most width cells.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "ktop"
	if m.cfg.Title != "" {
		v.WindowTitle += " " + m.cfg.Title
	}
	if m.editing && m.height > 0 {
		if c := m.input.Cursor(); c != nil {
			c.Position.X = min(c.Position.X, max(m.width-1, 0))
			c.Position.Y = m.height - 1
			v.Cursor = c
		}
	}
	return v
}

func (m *Model) lines() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	lines := slices.Clone(m.header)
	if m.loaded || m.screen == helpScreen {
		lines = append(lines, m.body()...)
	} else if len(lines) < m.height-1 {
		lines = append(lines, m.st.dim.Render("reading the cluster"+m.st.ellipsis))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.footer())
	for i, l := range lines {
		if ansi.StringWidth(l) > m.width {
			lines[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return lines
}

// body is the list on the screen: its heading and the rows that fit.
func (m *Model) body() []string {
	rows := m.rows()
	from := m.lists[m.screen].offset
	to := min(from+rows, m.length())
	from = min(from, to)
	switch m.screen {
	case helpScreen:
		return m.helpLines(m.width)[from:to]
	case pendingScreen:
		return m.pendingLines(m.pending[from:to])
	}
	return m.nodeLines(m.nodes[from:to])
}

// rows is how many lines of the list on the screen fit.
func (m *Model) rows() int {
	rest := m.height - len(m.header) - 1 // the footer
	if m.screen != helpScreen {
		rest-- // the heading
	}
	return max(rest, 0)
}

func (m *Model) footer() string {
	st := &m.st
	if m.editing {
		right := m.position()
		if err := m.list().err; err != nil {
			right = st.bad.Render(st.fit(err.Error(), min(ansi.StringWidth(err.Error()), m.width*2/3)))
		}
		return st.sides(m.input.View(), right, m.width)
	}
	left := m.hints()
	if text := m.list().text; text != "" {
		left = st.dim.Render("filter ") + st.accent.Render(text) + st.dim.Render("  Esc clears")
		if m.list().err != nil {
			left = st.bad.Render("not applied: ") + text + st.dim.Render("  Esc clears")
		}
	}
	return st.sides(left, m.position(), m.width)
}

// position says which part of the list is on the screen: "1–17 of 1000".
func (m *Model) position() string {
	n, rows := m.length(), m.rows()
	from := m.lists[m.screen].offset
	to := min(from+rows, n)
	switch {
	case m.screen == helpScreen && n <= rows, !m.loaded:
		return ""
	case n == 0:
		return m.st.dim.Render("0 of " + fmt.Sprint(m.unfiltered()))
	}
	s := fmt.Sprintf("%d%s%d of %d", from+1, m.st.dash, to, n)
	if all := m.unfiltered(); all != n {
		s += fmt.Sprintf(" (%d in all)", all)
	}
	return m.st.dim.Render(s)
}

func (m *Model) unfiltered() int {
	switch m.screen {
	case pendingScreen:
		return m.frame.PendingCount
	case helpScreen:
		return m.length()
	}
	return len(m.frame.Nodes)
}

// hints shows the keys that matter most, as many as fit.
func (m *Model) hints() string {
	k, st := &m.keys, &m.st
	bindings := [][2]string{{"?", "help"}, {"q", "quit"}, {"/", "filter"}, {"p", "pending"}, {"c m o n", "sort"}, {"r", "reverse"}}
	if m.screen != nodesScreen {
		bindings = [][2]string{{"?", "help"}, {"q", "quit"}, {"/", "filter"}, {"p", "nodes"}}
	}
	if m.screen == helpScreen {
		bindings = [][2]string{{k.help.Help().Key, "back"}, {"q", "quit"}}
	}
	room := m.width - ansi.StringWidth(m.position()) - 2
	var out string
	for _, b := range bindings {
		next := st.bold.Render(b[0]) + " " + st.dim.Render(b[1])
		if out != "" {
			next = out + "  " + next
		}
		if ansi.StringWidth(next) > room {
			break
		}
		out = next
	}
	return out
}
