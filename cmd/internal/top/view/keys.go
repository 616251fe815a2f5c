package view

import "charm.land/bubbles/v2/key"

// keyMap holds the keys that work on every screen.
type keyMap struct {
	up, down, pageUp, pageDown, home, end key.Binding
	filter, clear, quit                   key.Binding
}

func newKeyMap(a arrows) keyMap {
	return keyMap{
		up:       bind(a.up+" k", "one line up", "up", "k"),
		down:     bind(a.down+" j", "one line down", "down", "j"),
		pageUp:   bind("PgUp", "one page up", "pgup", "ctrl+b"),
		pageDown: bind("PgDn", "one page down", "pgdown", "ctrl+f", "space"),
		home:     bind("Home", "first line", "home"),
		end:      bind("End", "last line", "end"),
		filter:   bind("/", "filter", "/"),
		clear:    bind("Esc", "clear the filter, go back", "esc"),
		quit:     bind("q", "quit", "q"),
	}
}

// bind makes a key binding; label and text are for the help.
func bind(label, text string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
}

// arrows are the labels of the arrow keys.
type arrows struct{ up, down, left, right string }

func arrowsOf(l Look) arrows {
	if l.Unicode {
		return arrows{"↑", "↓", "←", "→"}
	}
	return arrows{"up", "down", "left", "right"}
}
