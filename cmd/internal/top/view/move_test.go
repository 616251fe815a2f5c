package view

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
)

// TestCursorFollows: the cursor stays on its node when nodes before it appear, and goes back to the top with a new order.
func TestCursorFollows(t *testing.T) {
	c := sample(12, false)
	m := model(t, c, terminal{full, 80, 24}, nil)
	press(m, "j", "j", "j")
	c.SetNode(state.Node{Name: "a-new-one"})
	_, read := m.Update(tickMsg{})
	m.Update(read())
	if p := m.pages[0]; p.cursor != 4 || nodesOf(m).shown[4].Name != "node-2" {
		t.Errorf("the cursor is on %d, %s", p.cursor, nodesOf(m).shown[p.cursor].Name)
	}
	c.DeleteNode("node-2")
	_, read = m.Update(tickMsg{})
	m.Update(read())
	if p := m.pages[0]; p.cursor != 4 || p.chosen != "" {
		t.Errorf("the node is gone: cursor %d, %q", p.cursor, p.chosen)
	}
	if press(m, "C"); m.pages[0].cursor != 0 {
		t.Errorf("a new order: cursor %d", m.pages[0].cursor)
	}
}

func TestMouse(t *testing.T) {
	m := model(t, sample(100, false), terminal{full, 80, 24}, nil)
	click := func(x, y int) { m.Update(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft}) }
	top := len(m.header) + 1
	click(3, top+4)
	if got := m.chosenTarget().node; got != "node-3" {
		t.Errorf("a click chose %s, want node-3", got)
	}
	click(3, 0)
	m.Update(tea.MouseClickMsg{X: 3, Y: top + 1, Button: tea.MouseRight})
	if got := m.chosenTarget().node; got != "node-3" {
		t.Errorf("a click beside the rows chose %s", got)
	}
	for range 10 {
		m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	}
	m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	if got := m.pages[0].cursor; got != 4+9*wheelRows {
		t.Errorf("the wheel moved the cursor to %d", got)
	}
	press(m, "g", "?")
	m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if m.page().offset != wheelRows {
		t.Errorf("the wheel scrolls the help to %d", m.page().offset)
	}
	if v := m.View(); v.MouseMode != tea.MouseModeCellMotion {
		t.Error("the terminal does not report the mouse")
	}
}

func TestCommands(t *testing.T) {
	m := model(t, sample(12, true), terminal{full, 80, 24}, nil)
	for _, c := range []struct{ command, want string }{{"pending", "pending"}, {"MAP", "map"}, {"dec", "decisions"}, {"", "decisions"},
		{"nodes", "nodes"}, {"he", "help"}} {
		press(m, ":")
		typed(m, c.command)
		if press(m, "enter"); name(m) != c.want || m.typing != nothing {
			t.Errorf(":%s leads to %s, want %s", c.command, name(m), c.want)
		}
	}
	press(m, "esc", ":")
	typed(m, "nowhere")
	press(m, "enter")
	if last := ansi.Strip(m.footer()); name(m) != "nodes" || !strings.Contains(last, `no view "nowhere": nodes pending`) {
		t.Errorf("screen %s, footer %q", name(m), last)
	}
	if press(m, "j"); strings.Contains(ansi.Strip(m.footer()), "nowhere") {
		t.Error("the notice stays")
	}
	press(m, ":", "x", "esc", ":")
	typed(m, "q")
	if _, cmd := m.Update(tea.KeyPressMsg{Code: tea.KeyEnter}); !quits(cmd) {
		t.Error(":q does not quit")
	}
}
