// Package view draws a cluster on a terminal and answers keys. It is the bubbletea model behind
// ktop and the demo.
//
// The model calls its Read function once per interval and draws the frame that it returns;
// events in the cluster cause no redraws. The output depends only on the configuration, the
// messages and the frames, so that tests can compare it with golden files.
//
// Each list that a person can look at is a screen: the nodes, the heat map, the decisions, the help. A screen
// that shows more than every frame holds asks for details. To add one, see screen.go.
package view

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/logging"
)

// minRows is the number of rows that keep their place when the header is shortened.
const minRows = 3

// View implements tea.Model. It draws at most height lines of at most width cells.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "ktop"
	if m.cfg.Title != "" {
		v.WindowTitle += " " + m.cfg.Title
	}
	if m.typing && m.height > 0 {
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
	if m.loaded || m.page().about.overlay {
		lines = append(lines, m.body()...)
	} else if len(lines) < m.height-1 {
		lines = append(lines, m.st.Dim.Render("reading the cluster"+ellipsis))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.footer())
	for i, l := range lines {
		if !m.cfg.Look.Unicode { // text of others, such as an explanation
			l = logging.ASCII(l)
			lines[i] = l
		}
		if ansi.StringWidth(l) > m.width {
			lines[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return lines
}

// body is the shown screen: its heading and the rows that fit.
func (m *Model) body() []string {
	p, rows := m.page(), m.rows()
	shown, _ := p.size(&m.canvas)
	to := min(p.offset+rows, shown)
	lines := p.draw(&m.canvas, min(p.offset, to), to)
	if at := p.above + p.cursor - p.offset; !p.about.overlay && !p.about.grid && at >= 0 && at < len(lines) && shown > 0 {
		lines[at] = m.st.Chosen.Render(m.st.Fit(ansi.Strip(lines[at]), m.width))
	}
	if shown == 0 && rows > 0 {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(ansi.Strip(l)) == "" })
		text := p.empty(&m.canvas)
		if ask := m.asking(p); ask != (state.Ask{}) && ask != m.asked {
			text = "reading" + ellipsis
		}
		lines = append(lines, m.st.Dim.Render(text))
	}
	return lines
}

// rows is the number of rows of the visible screen that fit.
func (m *Model) rows() int {
	const footer = 1
	return max(m.height-len(m.header)-footer-m.page().above, 0)
}

// footer shows the filter, or keys, and the position.
func (m *Model) footer() string {
	st := &m.st
	if m.typing {
		return st.sides(m.input.View(), m.position(), m.width)
	}
	left := m.hints()
	if text := m.page().text; text != "" {
		left = st.Dim.Render("filter ") + st.Accent.Render(text) + st.Dim.Render("  Esc clears")
	}
	return st.sides(left, m.position(), m.width)
}

// position tells the visible rows: "1–17 of 1000".
func (m *Model) position() string {
	p, rows := m.page(), m.rows()
	n, all := p.size(&m.canvas)
	switch {
	case (p.about.overlay || p.about.grid) && n <= rows, !m.loaded:
		return ""
	case n == 0:
		return m.st.Dim.Render("0 of " + fmt.Sprint(all))
	}
	s := fmt.Sprintf("%d%s%d of %d", p.offset+1, dash, min(p.offset+rows, n), n)
	if all != n {
		s += fmt.Sprintf(" (%d in all)", all)
	}
	return m.st.Dim.Render(s)
}

// hints shows the keys that fit, the most important first.
func (m *Model) hints() string {
	st := &m.st
	room := m.width - ansi.StringWidth(m.position()) - 2
	var out string
	for _, b := range m.hintKeys() {
		next := st.Bold.Render(b[0]) + " " + st.Dim.Render(b[1])
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

// hintKeys are keys, each with a word: to overlays, to other screens, and the screen's own.
func (m *Model) hintKeys() [][2]string {
	var overlays, others [][2]string
	p := m.page()
	for _, other := range m.pages[1:] {
		hint := [2]string{other.about.open.Help().Key, other.about.name}
		switch {
		case !other.about.open.Enabled():
		case other == p && p.about.overlay:
			return [][2]string{{hint[0], "back"}, {"q", "quit"}}
		case other.about.overlay:
			overlays = append(overlays, hint)
		case other == p:
			others = append(others, [2]string{hint[0], m.pages[0].about.name})
		default:
			others = append(others, hint)
		}
	}
	if p != m.pages[0] && !p.about.open.Enabled() { // Enter led there
		overlays = append([][2]string{{"Esc", "back"}}, overlays...)
	}
	return slices.Concat(overlays, [][2]string{{"q", "quit"}, {"/", "filter"}}, others, p.about.hints)
}
