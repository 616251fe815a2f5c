package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/fatal"
)

func nodesOf(m *Model) *nodesScreen              { return m.pages[0].screen.(*nodesScreen) }
func pendingOf(m *Model) *list[state.PendingPod] { return m.pages[1].screen.(*list[state.PendingPod]) }
func name(m *Model) string                       { return m.page().about.name }

func firstNode(m *Model) string {
	for _, l := range strings.Split(ansi.Strip(m.View().Content), "\n") {
		if strings.HasPrefix(l, "node-") || strings.HasPrefix(l, "control") {
			return strings.Fields(l)[0]
		}
	}
	return ""
}

// TestScrolling: keys move the cursor, and the rows follow it.
func TestScrolling(t *testing.T) {
	m := model(t, sample(1000, false), terminal{full, 80, 24}, nil)
	rows, p := m.rows(), m.pages[0]
	for _, c := range []struct {
		key            string
		cursor, offset int
	}{
		{"k", 0, 0}, {"up", 0, 0}, {"pgup", 0, 0}, {"j", 1, 0}, {"down", 2, 0}, {"k", 1, 0}, {"pgdown", 1 + rows, 2}, {"pgup", 1, 1},
		{"G", 1000, 1001 - rows}, {"down", 1000, 1001 - rows}, {"pgdown", 1000, 1001 - rows}, {"up", 999, 1001 - rows}, {"g", 0, 0},
		{"ctrl+d", rows / 2, 0}, {"ctrl+u", 0, 0}, {"end", 1000, 1001 - rows}, {"home", 0, 0},
	} {
		press(m, c.key)
		if p.cursor != c.cursor || p.offset != c.offset {
			t.Errorf("after %s: cursor %d, offset %d, want %d and %d", c.key, p.cursor, p.offset, c.cursor, c.offset)
		}
		if got := firstNode(m); got != nodesOf(m).shown[c.offset].Name {
			t.Errorf("after %s: %s on top, want %s", c.key, got, nodesOf(m).shown[c.offset].Name)
		}
	}
	press(m, "end")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 50})
	if got, want := m.pages[0].offset, 1001-m.rows(); got != want {
		t.Errorf("after growing: offset %d, want %d: the last page stays full", got, want)
	}
}

func TestSortingKeys(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 120, 40}, nil)
	for _, c := range []struct {
		key  string
		want state.Sort
	}{
		{"r", state.Sort{Column: state.ByName, Desc: true}},
		{"<", state.Sort{Column: state.ByMemory, Desc: true}}, // no GPUs here
		{"left", state.Sort{Column: state.ByCPU, Desc: true}},
		{"r", state.Sort{Column: state.ByCPU}},
		{">", state.Sort{Column: state.ByMemory, Desc: true}},
		{"right", state.Sort{Column: state.ByName}},
	} {
		if press(m, c.key); nodesOf(m).sort != c.want {
			t.Errorf("after %s: %v, want %v", c.key, nodesOf(m).sort, c.want)
		}
		want := slices.Clone(m.frame.Nodes)
		c.want.Apply(want)
		if got := firstNode(m); got != want[0].Name {
			t.Errorf("after %s: %s on top, want %s", c.key, got, want[0].Name)
		}
	}
	gpus := model(t, sample(12, true), terminal{full, 120, 40}, nil)
	if press(gpus, "<"); nodesOf(gpus).sort != state.By(state.ByGPU) {
		t.Errorf("with GPUs: %v", nodesOf(gpus).sort)
	}
}

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
	if press(m, ">"); m.pages[0].cursor != 0 {
		t.Errorf("a new order: cursor %d", m.pages[0].cursor)
	}
}

func TestFiltering(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	press(m, "/")
	typed(m, "node-1q")
	if len(nodesOf(m).shown) != 0 || !m.typing {
		t.Errorf("while typing: %d nodes pass, editing %v; q must be a letter here", len(nodesOf(m).shown), m.typing)
	}
	press(m, "backspace")
	if len(nodesOf(m).shown) != 3 { // node-1, node-10, node-11
		t.Errorf("%d nodes pass, want 3", len(nodesOf(m).shown))
	}
	if c := m.View().Cursor; c == nil || c.Position.Y != 23 || c.Position.X != len("/node-1") {
		t.Errorf("cursor %+v", c)
	}
	press(m, "enter", ">")
	if m.typing || nodesOf(m).sort.Column != state.ByStatus || len(nodesOf(m).shown) != 3 {
		t.Errorf("after enter: editing %v, %v, %d nodes", m.typing, nodesOf(m).sort, len(nodesOf(m).shown))
	}
	press(m, "p", "/")
	typed(m, "room-2")
	if press(m, "enter"); len(pendingOf(m).shown) != 11 || len(nodesOf(m).shown) != 3 {
		t.Errorf("the lists share a filter: %d pods, %d nodes", len(pendingOf(m).shown), len(nodesOf(m).shown))
	}
	if press(m, "esc"); len(pendingOf(m).shown) != 30 || name(m) != "pending" {
		t.Errorf("first esc: %d pods on screen %s", len(pendingOf(m).shown), name(m))
	}
	if press(m, "esc"); name(m) != "nodes" || len(nodesOf(m).shown) != 3 {
		t.Errorf("second esc: screen %s, %d nodes", name(m), len(nodesOf(m).shown))
	}
	if press(m, "esc"); len(nodesOf(m).shown) != 13 {
		t.Errorf("third esc: %d nodes", len(nodesOf(m).shown))
	}
	press(m, "/", "x", "esc")
	if m.typing || m.pages[0].text != "" || len(nodesOf(m).shown) != 13 {
		t.Errorf("esc while typing: editing %v, %q", m.typing, m.pages[0].text)
	}
	press(m, "/")
	m.Update(tea.PasteMsg{Content: "node-11"})
	if len(nodesOf(m).shown) != 1 {
		t.Errorf("pasted: %d nodes, want 1", len(nodesOf(m).shown))
	}
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

func TestQuitting(t *testing.T) {
	for _, screen := range [][]string{nil, {"p"}, {"?"}} {
		m := model(t, sample(2, false), terminal{full, 80, 24}, nil)
		press(m, screen...)
		if _, cmd := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); !quits(cmd) {
			t.Errorf("q on %v does not quit", screen)
		}
	}
	for _, screen := range [][]string{nil, {"p"}, {"?"}, {"/"}, {"/", "x"}} {
		m := model(t, sample(2, false), terminal{full, 80, 24}, nil)
		press(m, screen...)
		if _, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); !quits(cmd) {
			t.Errorf("Ctrl-C after %v does not quit", screen)
		}
	}
}

// TestRedrawsFollowTheClock: a pause follows each regular frame, but not a frame that a key asked for.
// So the pace is always the interval.
func TestRedrawsFollowTheClock(t *testing.T) {
	done := make(chan struct{})
	close(done)
	reads := []int{}
	m := New(Config{Interval: time.Hour, Done: done, Read: func(n int) state.Frame { reads = append(reads, n); return state.Frame{} }})
	_, pause := m.Update(m.Init()())
	if pause == nil {
		t.Fatal("no pause after the first frame")
	}
	if msg := pause(); msg != nil {
		t.Errorf("a pause that ends early leads to %v", msg)
	}
	_, read := m.Update(tickMsg{})
	if _, pause = m.Update(read()); pause == nil {
		t.Error("no pause after the second frame")
	}
	_, read = m.Update(tea.KeyPressMsg{Code: 'p', Text: "p"})
	if _, pause = m.Update(read()); pause != nil {
		t.Error("the frame for the pending pods began a second chain of pauses")
	}
	if want := []int{0, 0, maxPending}; !slices.Equal(reads, want) {
		t.Errorf("reads %v, want %v", reads, want)
	}
}

// TestFitsEveryWindow presses keys and resizes the window at random: nothing panics, and the output is
// never larger than the window.
func TestFitsEveryWindow(t *testing.T) {
	list, samples, live := decided(30), learned(200, "gnn"), found(t, 40)
	clusters := []*state.Cluster{state.New(), sample(3, false), sample(40, true)}
	key := rapid.SampledFrom([]string{
		"j", "k", "pgup", "pgdown", "home", "end", "g", "G", "ctrl+d", "m", "l", "P", "e", "tab", "left", "right", "r", "<", ">", "p", "t", "s",
		"f", "v", "?", "/", "esc", "enter", "x", "!", "backspace", "%", "世",
	})
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(clusters).Draw(rt, "cluster")
		look := Look{Color: rapid.Bool().Draw(rt, "color"), Unicode: rapid.Bool().Draw(rt, "unicode")}
		m := model(t, c, terminal{look, 80, 24}, func(cfg *Config, f *state.Frame) {
			answering(c, list)(cfg, f)
			details := cfg.Details
			cfg.Details = func(ask state.Ask) state.Details {
				d := details(ask)
				d.Learning, d.Shadow = samples, live
				return d
			}
			cfg.Title = rapid.StringN(0, 30, -1).Draw(rt, "title")
			if rapid.Bool().Draw(rt, "lost") {
				f.Lost = &state.Lost{Since: noon, Reason: "世界 is away"}
			}
		})
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			w, h := rapid.IntRange(0, 200).Draw(rt, "width"), rapid.IntRange(0, 60).Draw(rt, "height")
			m.Update(tea.WindowSizeMsg{Width: w, Height: h})
			press(m, rapid.SliceOfN(key, 0, 4).Draw(rt, "keys")...)
			if p := m.page(); w > 0 && h > 0 && !p.about.overlay {
				if n := len(p.draw(&m.canvas, 0, 0)); n != p.above {
					rt.Fatalf("%s in %dx%d: the heading has %d lines, not %d", name(m), w, h, n, p.above)
				}
			}
			lines := strings.Split(m.View().Content, "\n")
			if w > 0 && h > 0 && len(lines) != h {
				rt.Fatalf("%d lines in a window of %dx%d", len(lines), w, h)
			}
			for i, l := range lines {
				if got := ansi.StringWidth(l); got > w {
					rt.Fatalf("line %d has %d cells in a window of %dx%d: %q", i, got, w, h, l)
				}
			}
		}
	})
}

// The pending pods are still there after the help, although a regular frame came meanwhile.
func TestPendingPodsAfterHelp(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	press(m, "p")
	before := ansi.Strip(m.View().Content)
	press(m, "?")
	_, read := m.Update(tickMsg{})
	m.Update(read())
	if press(m, "?"); len(pendingOf(m).shown) != 30 || ansi.Strip(m.View().Content) != before {
		t.Errorf("%d pods are listed after the help:\n%s", len(pendingOf(m).shown), ansi.Strip(m.View().Content))
	}
}

// TestEveryScreenIsReachable: the key of each screen in the list opens and leaves it, and the
// help and the footer name it.
func TestEveryScreenIsReachable(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 200, 60}, nil)
	footer := ansi.Strip(m.footer())
	for i, p := range m.pages[1:] {
		if !p.about.open.Enabled() {
			continue // Enter leads there
		}
		open := p.about.open.Help()
		if !strings.Contains(footer, open.Key+" "+p.about.name) {
			t.Errorf("the footer %q does not lead to screen %s", footer, p.about.name)
		}
		if press(m, open.Key); m.current != i+1 {
			t.Errorf("%s opens %s, want %s", open.Key, name(m), p.about.name)
		}
		if press(m, open.Key); m.current != 0 {
			t.Errorf("%s pressed again leads to %s", open.Key, name(m))
		}
		if help := strings.Join(helpLines(&m.canvas), "\n"); !strings.Contains(ansi.Strip(help), open.Desc) {
			t.Errorf("the help does not mention %q", open.Desc)
		}
	}
}

// TestDocumentedKeys: docs/reference/ktop.md has every key and some screens as the view has them, and the view gives no key of a screen
// twice. With -update it writes them.
func TestDocumentedKeys(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	var rows strings.Builder
	seen := map[string]string{}
	row := func(where string, b key.Binding) {
		fmt.Fprintf(&rows, "| %s | `%s` | %s |\n", where, strings.ReplaceAll(b.Help().Key, "|", "\\|"), b.Help().Desc)
	}
	for _, b := range append(m.keys.moving(), m.keys.server, m.keys.quit) { // that work on every screen
		row("everywhere", b)
	}
	for _, p := range m.pages {
		if open := p.about.open; open.Enabled() {
			if before := seen[open.Help().Key]; before != "" {
				t.Errorf("the key %s opens %s and %s", open.Help().Key, before, p.about.name)
			}
			seen[open.Help().Key] = p.about.name
			row("everywhere", open)
		}
	}
	for _, p := range m.pages {
		for _, b := range p.about.keys {
			row(p.about.name, b)
		}
	}
	parts := map[string]string{"keys": "| where | key | does |\n|---|---|---|\n" + rows.String()}
	for name, s := range documented(t) {
		parts["keys screen "+name] = "```\n" + s.excerpt() + "```\n"
	}
	path := filepath.Join("..", "..", "..", "..", "docs", "reference", "ktop.md")
	text := fatal.Value(os.ReadFile(path))(t)
	page := string(text)
	for name, want := range parts {
		begin := "<!-- generated: " + name + " -->\n"
		head, rest, found := strings.Cut(page, begin)
		_, tail, closed := strings.Cut(rest, "<!-- end -->")
		if found && closed {
			page = head + begin + "\n" + want + "\n<!-- end -->" + tail
		} else if name == "keys" {
			t.Errorf("docs/reference/ktop.md has no part %q", name)
		}
	}
	fatal.Golden(t, filepath.Join("..", path), page)
}
