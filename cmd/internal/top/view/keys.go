package view

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// keyMap holds the keys that work on every screen.
type keyMap struct {
	moves                              []move
	enter, filter, clear, server, quit key.Binding
}

// move is a key that moves the cursor.
type move struct {
	key.Binding
	rows func(page, all int) int // how far down, given the rows that fit and all rows
}

func newKeyMap() keyMap {
	return keyMap{
		moves: []move{
			{bind("↑ k", "one line up", "up", "k"), func(int, int) int { return -1 }},
			{bind("↓ j", "one line down", "down", "j"), func(int, int) int { return 1 }},
			{bind("PgUp ^b", "one page up", "pgup", "ctrl+b"), func(page, _ int) int { return -page }},
			{bind("PgDn ^f", "one page down", "pgdown", "ctrl+f", "space"), func(page, _ int) int { return page }},
			{bind("^u", "half a page up", "ctrl+u"), func(page, _ int) int { return -max(page/2, 1) }},
			{bind("^d", "half a page down", "ctrl+d"), func(page, _ int) int { return max(page/2, 1) }},
			{bind("g Home", "first line", "home", "g"), func(_, all int) int { return -all }},
			{bind("G End", "last line", "end", "G"), func(_, all int) int { return all }},
		},
		enter:  bind("Enter", "open the row", "enter"),
		filter: bind("/", "filter", "/"),
		clear:  bind("Esc", "clear the filter, go back", "esc"),
		server: bind("o", "in t and s: the next scheduler", "o"),
		quit:   bind("q", "quit", "q"),
	}
}

// bind makes a key binding; label and text are for the help.
func bind(label, text string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
}

// moving returns the keys that move in a screen or between screens.
func (k *keyMap) moving() (out []key.Binding) {
	for _, m := range k.moves {
		out = append(out, m.Binding)
	}
	return append(out, k.enter, k.filter, k.clear)
}

func (m *Model) startTyping() tea.Cmd {
	m.typing = true
	m.input.SetValue(m.page().text)
	m.input.CursorEnd()
	return m.input.Focus()
}

// edit handles a key while a filter is typed. The rows follow every letter.
func (m *Model) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.setFilter("")
		fallthrough
	case "enter":
		m.typing = false
		m.input.Blur()
		return nil
	}
	return m.enterText(k)
}

// enterText hands a key or a pasted text to the input.
func (m *Model) enterText(msg tea.Msg) (cmd tea.Cmd) {
	m.input, cmd = m.input.Update(msg)
	m.setFilter(m.input.Value())
	return cmd
}

func (m *Model) setFilter(text string) {
	m.page().setFilter(text)
	m.update()
}

// scroll moves the cursor, and tells whether the key was one for that.
func (m *Model) scroll(k tea.KeyPressMsg) bool {
	p := m.page()
	all, _ := p.size(&m.canvas)
	for _, x := range m.keys.moves {
		if key.Matches(k, x.Binding) {
			m.move(x.rows(max(m.rows(), 1), all))
			return true
		}
	}
	return false
}

// move puts the cursor some rows further down. An overlay has none and scrolls.
func (m *Model) move(rows int) {
	p := m.page()
	if p.about.overlay {
		p.offset += rows
		return
	}
	m.choose(p.cursor + rows)
}

// choose puts the cursor on a row, or the next that exists. From then on it follows that row, unless it is the first.
func (m *Model) choose(row int) {
	p := m.page()
	shown, _ := p.size(&m.canvas)
	p.choose(max(0, min(row, shown-1)))
	if p.cursor > 0 {
		p.chosen = p.name(p.cursor)
	}
}

// find puts the cursor on the chosen row after the rows have changed.
func (p *page) find(c *canvas) {
	if p.chosen == "" {
		return
	}
	shown, _ := p.size(c)
	if p.cursor < shown && p.name(p.cursor) == p.chosen {
		return
	}
	for row := range shown {
		if p.name(row) == p.chosen {
			p.cursor = row
			return
		}
	}
	p.chosen = ""
}

// helpScreen explains every key, and the figures of the other screens. It covers the screen
// that the reader came from.
func helpScreen() screen {
	return &help{prose{lines: helpLines, list: list[struct{}]{
		about: description{name: "help", open: bind("?", "help", "?"), overlay: true},
	}}}
}

type help struct{ prose }

func (*help) order(c *canvas) string { return c.pages[0].order(c) }

// helpLines draws the whole help: the view's keys beside the screens' keys, then the notes of the screens.
func helpLines(c *canvas) []string {
	k, st := &c.keys, &c.st
	general := k.moving()
	var own []key.Binding
	for _, p := range c.pages {
		if p.about.open.Enabled() {
			general = append(general, p.about.open)
		}
		own = append(own, p.about.keys...)
	}
	general = append(general, k.server, k.quit)
	lines := append([]string{st.Bold.Render("Keys")}, keyLines(c, general, own)...)
	for _, p := range c.pages {
		for _, n := range p.about.notes {
			lines = append(lines, "", st.Bold.Render(n.title)+n.text)
			lines = append(lines, n.lines...)
		}
	}
	return lines
}

// keyLines draws two lists of keys side by side, or one below the other in a narrow window.
func keyLines(c *canvas, left, right []key.Binding) []string {
	st := &c.st
	line := func(b key.Binding) string {
		return "  " + st.Bold.Render(st.Fit(b.Help().Key, 9)) + b.Help().Desc
	}
	var lines []string
	half := c.width / 2
	if half < 38 {
		for _, b := range append(left, right...) {
			lines = append(lines, line(b))
		}
		return lines
	}
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = line(left[i])
		}
		if i < len(right) {
			r = line(right[i])
		}
		lines = append(lines, st.Fit(l, half)+r)
	}
	return lines
}
