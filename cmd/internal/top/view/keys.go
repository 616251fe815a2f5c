package view

import "charm.land/bubbles/v2/key"

// keyMap holds the keys that work on every screen.
type keyMap struct {
	up, down, pageUp, pageDown, home, end key.Binding
	halfUp, halfDown                      key.Binding
	enter, filter, command, clear, quit   key.Binding
}

func newKeyMap(a arrows) keyMap {
	return keyMap{
		up:       bind(a.up+" k", "one line up", "up", "k"),
		down:     bind(a.down+" j", "one line down", "down", "j"),
		pageUp:   bind("PgUp ^b", "one page up", "pgup", "ctrl+b"),
		pageDown: bind("PgDn ^f", "one page down", "pgdown", "ctrl+f", "space"),
		halfUp:   bind("^u", "half a page up", "ctrl+u"),
		halfDown: bind("^d", "half a page down", "ctrl+d"),
		home:     bind("g Home", "first line", "home", "g"),
		end:      bind("G End", "last line", "end", "G"),
		enter:    bind("Enter", "open the node; a second click too", "enter"),
		filter:   bind("/", "filter", "/"),
		command:  bind(":", "go to a view by its name, as :pending", ":"),
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
