package view

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
)

// helpScreen explains every key, and the figures of the other screens. It covers the screen
// that the reader came from.
type helpScreen struct{}

func (*helpScreen) describe() description {
	return description{name: "help", open: bind("?", "help", "?"), overlay: true}
}

func (*helpScreen) update(*canvas, query.Filter)          {}
func (*helpScreen) press(*canvas, tea.KeyPressMsg)        {}
func (*helpScreen) order(c *canvas) string                { return c.pages[0].order(c) }
func (*helpScreen) empty(*canvas) string                  { return "" }
func (*helpScreen) draw(c *canvas, from, to int) []string { return helpLines(c)[from:to] }

func (*helpScreen) size(c *canvas) (shown, total int) {
	n := len(helpLines(c))
	return n, n
}

// helpLines draws the whole help: the keys of the view beside those of the screens, then the
// notes of the screens.
func helpLines(c *canvas) []string {
	k, st := &c.keys, &c.st
	general := []key.Binding{k.up, k.down, k.pageUp, k.pageDown, k.halfUp, k.halfDown, k.home, k.end, k.enter, k.filter, k.command, k.clear}
	var own []key.Binding
	for _, p := range c.pages {
		if p.about.open.Enabled() {
			general = append(general, p.about.open)
		}
		own = append(own, p.about.keys...)
	}
	general = append(general, k.quit)
	lines := append([]string{st.bold.Render("Keys")}, keyLines(c, general, own)...)
	for _, p := range c.pages {
		for _, n := range p.about.notes {
			lines = append(lines, "", st.bold.Render(n.title)+n.text)
			lines = append(lines, n.lines...)
		}
	}
	return lines
}

// keyLines draws two lists of keys side by side, or one below the other in a narrow window.
func keyLines(c *canvas, left, right []key.Binding) []string {
	st := &c.st
	line := func(b key.Binding) string {
		return "  " + st.bold.Render(st.fit(b.Help().Key, 9)) + b.Help().Desc
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
		lines = append(lines, st.fit(l, half)+r)
	}
	return lines
}
