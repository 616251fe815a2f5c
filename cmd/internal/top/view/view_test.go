package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/golden"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sample is a cluster of workers and a control plane with two schedulers, a cordoned node, a node that
// is not ready, and pending pods. It is random, but always the same.
func sample(workers int, gpus bool) *state.Cluster {
	c, rng := state.New(), rand.New(rand.NewPCG(1, 2))
	base := state.Node{
		Status: "Ready", Ready: true, Worker: true, Roles: []string{"agent"}, Version: "v1.36.3", Zone: "zone-a",
		Created: noon.Add(-5*time.Hour - 7*time.Minute),
		CPU:     state.Usage{Allocatable: 64_000}, Memory: state.Usage{Allocatable: 256 << 30}, Pods: state.Usage{Allocatable: 110},
	}
	control := base
	control.Name, control.Roles, control.Worker = "control-plane-0", []string{"control-plane"}, false
	c.SetNode(control)
	n := 0
	for i := range workers {
		w := base
		w.Name = fmt.Sprintf("node-%d", i)
		if gpus && i%2 == 0 {
			w.GPU.Allocatable, w.GPUModel, w.Devices = 8000, []string{"A100", "T4"}[i/2%2], make([]int64, 8)
		}
		switch i {
		case 3:
			w.Status, w.Cordoned = "Ready,SchedulingDisabled", true
		case 5:
			w.Status, w.Ready = "NotReady", false
		}
		c.SetNode(w)
		for range rng.IntN(40) {
			n++
			p := state.Pod{
				Namespace: "default", Name: fmt.Sprintf("app-%d", n), Scheduler: []string{"default-scheduler", "gnn"}[n%2],
				Created: noon.Add(-time.Minute),
				CPU:     500 + rng.Int64N(2600), Memory: rng.Int64N(6 << 30), GPU: int64(n % 17 / 16 * int(w.GPU.Allocatable/8)),
			}
			if w.Devices != nil && n%17 == 8 { // a share
				p.GPU, p.Devices = int64(190+20*(n%32)), cluster.Device(7-n%3)
			}
			p.Status = "Running"
			if i < 12 {
				c.SetPod(p, noon)
			}
			p.Node = w.Name
			c.SetPod(p, noon.Add(-time.Duration(n%15)*time.Second))
		}
	}
	for i := range 30 {
		p := state.Pod{
			Namespace: "default", Name: fmt.Sprintf("waiting-for-room-%d", i), Status: "Pending", Scheduler: "gnn",
			Created: noon.Add(-time.Duration(i) * time.Second),
		}
		switch i % 3 {
		case 0:
			p.Reason = "Unschedulable"
			p.Message = "0/13 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, " +
				"12 Insufficient cpu. preemption: 0/13 nodes are available: 13 No preemption victims found."
		case 1:
			p.Reason, p.Message = "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
		}
		c.SetPod(p, noon)
	}
	return c
}

// measured is a sample whose nodes are measured, except one.
func measured(workers int) *state.Cluster {
	c, used := sample(workers, false), map[string]state.Measured{}
	for i := range workers {
		used[fmt.Sprintf("node-%d", i)] = state.Measured{CPU: int64(i*i%17) * 4000, Memory: int64(i+1) << 33}
	}
	delete(used, "node-7")
	c.SetUsed(used)
	return c
}

// terminal holds the size and look of the terminal that a test draws on.
type terminal struct {
	look          Look
	width, height int
}

// model returns a view of c that has read its first frame.
func model(t testing.TB, c *state.Cluster, term terminal, change func(*Config, *state.Frame)) *Model {
	t.Helper()
	cfg := Config{Title: "gnnsched-kwok", Look: term.look}
	var lost *state.Lost
	f := c.Frame(noon, 0)
	if change != nil {
		change(&cfg, &f)
		lost = f.Lost
	}
	cfg.Read = func(maxPending int) state.Frame {
		f := c.Frame(noon, maxPending)
		f.Lost = lost
		return f
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: term.width, Height: term.height})
	m.Update(m.Init()())
	return m
}

// press sends keys, by name or as a letter, and reads the frames that they ask for.
func press(m *Model, keys ...string) {
	named := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
		"home": tea.KeyHome, "end": tea.KeyEnd, "esc": tea.KeyEscape, "enter": tea.KeyEnter, "backspace": tea.KeyBackspace, "tab": tea.KeyTab,
	}
	for _, k := range keys {
		var msg tea.Msg = tea.KeyPressMsg{Code: named[k]}
		switch letter, ctrl := strings.CutPrefix(k, "ctrl+"); {
		case k == "click":
			msg = tea.MouseClickMsg{X: 20, Y: 10, Button: tea.MouseLeft}
		case k == "wheel":
			msg = tea.MouseWheelMsg{Button: tea.MouseWheelDown}
		case ctrl:
			msg = tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
		case named[k] == 0:
			msg = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		if _, cmd := m.Update(msg); cmd != nil {
			if f, ok := cmd().(frameMsg); ok {
				m.Update(f)
			}
		}
	}
}

func typed(m *Model, text string) {
	for _, r := range text {
		press(m, string(r))
	}
}

var (
	full  = Look{Color: true, Unicode: true}
	plain = Look{Unicode: true}
	ascii = Look{}
)

// TestGolden compares the output with the files in testdata. Colours are removed from all files but
// two, so that a person can read them: one with colours, and one drawn under NO_COLOR.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name          string
		cluster       *state.Cluster
		look          Look
		width, height int
		change        func(*Config, *state.Frame)
		do            func(*Model)
	}{
		{"80x24.txt", sample(12, false), full, 80, 24, nil, nil},
		{"120x40.txt", sample(12, false), full, 120, 40, nil, nil},
		{"200x50.txt", sample(100, true), full, 200, 50, nil, nil},
		{"help-200x50.txt", sample(12, false), full, 200, 50, nil, func(m *Model) { press(m, "?") }},
		{"pending-200x50.txt", sample(12, false), full, 200, 50, nil, func(m *Model) { press(m, "p") }},
		{"used-200x50.txt", measured(60), full, 200, 50, nil, nil},
		{"160x20-gpu.txt", sample(12, true), full, 160, 20, nil, nil},
		{"80x24-gpu.txt", sample(12, true), full, 80, 24, nil, nil},
		{"1000-nodes-scrolled.txt", sample(1000, false), full, 80, 24, nil, func(m *Model) { press(m, "pgdown", "pgdown", "j", "j", "k") }},
		{"1000-nodes-end.txt", sample(1000, false), full, 80, 24, nil, func(m *Model) { press(m, "end") }},
		{"filtered.txt", sample(1000, false), full, 80, 24, nil, func(m *Model) { press(m, "/"); typed(m, "node-1"); press(m, "enter") }},
		{"filter-typed.txt", sample(1000, false), full, 80, 24, nil, func(m *Model) { press(m, "/"); typed(m, "node-99") }},
		{"filter-nothing.txt", sample(12, false), full, 80, 24, nil, func(m *Model) { press(m, "/"); typed(m, "nowhere"); press(m, "enter") }},
		{"sorted-by-cpu.txt", sample(1000, false), full, 80, 24, nil, func(m *Model) { press(m, "C") }},
		{"sorted-by-memory-up.txt", sample(12, false), full, 120, 24, nil, func(m *Model) { press(m, "M", "r") }},
		{"no-color.txt", sample(12, false), plain, 80, 24, nil, nil},
		{"ascii.txt", sample(12, false), ascii, 80, 24, nil, nil},
		{"40x10.txt", sample(12, false), full, 40, 10, nil, nil},
		{"20x5.txt", sample(12, false), full, 20, 5, nil, nil},
		{"empty.txt", state.New(), full, 80, 24, nil, nil},
		{"disconnected.txt", sample(12, false), full, 80, 24, func(_ *Config, f *state.Frame) {
			f.Lost = &state.Lost{Since: noon.Add(-42 * time.Second), Reason: "connection refused"}
		}, nil},
		{"used.txt", measured(12), full, 120, 24, nil, nil},
		{"used-narrow.txt", measured(12), ascii, 40, 12, nil, nil},
		{"pending.txt", sample(12, false), full, 80, 24, nil, func(m *Model) { press(m, "p") }},
		{"pending-wide.txt", sample(12, false), full, 130, 20, nil, func(m *Model) { press(m, "p", "down") }},
		{"pending-filtered.txt", sample(12, false), full, 80, 24, nil,
			func(m *Model) { press(m, "p", "/"); typed(m, "gated"); press(m, "enter") }},
		{"pending-none.txt", state.New(), full, 80, 24, nil, func(m *Model) { press(m, "p") }},
		{"help.txt", sample(12, false), full, 80, 24, nil, func(m *Model) { press(m, "?") }},
		{"help-narrow.txt", sample(12, false), full, 50, 16, nil, func(m *Model) { press(m, "?", "j", "j") }},
		{"status.txt", sample(12, false), full, 80, 24, func(c *Config, _ *state.Frame) {
			c.Status = func() string { return "round 1 of 2: gnn, 340 of 500 pods" }
		}, nil},
	} {
		m := model(t, c.cluster, terminal{c.look, c.width, c.height}, c.change)
		if c.do != nil {
			c.do(m)
		}
		got := m.View().Content
		if strings.Contains(got, "\x1b[") != strings.Contains(withoutColour(got), "\x1b[") && !c.look.Color {
			t.Errorf("%s: colours under NO_COLOR", c.name)
		}
		golden.Check(t, c.name, trimmed(ansi.Strip(got)))
	}
	golden.Check(t, "80x24.ansi", model(t, sample(12, false), terminal{full, 80, 24}, nil).View().Content)
	golden.Check(t, "no-color.ansi", model(t, sample(12, false), terminal{plain, 80, 24}, nil).View().Content)
}

func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestBeforeTheFirstFrame(t *testing.T) {
	m, err := New(Config{Title: "t", Look: ascii, Read: func(int) state.Frame { return state.Frame{} }})
	if err != nil {
		t.Fatal(err)
	}
	got := ansi.Strip(m.View().Content)
	if lines := strings.Split(got, "\n"); len(lines) != 24 || !strings.HasPrefix(lines[0], "ktop | t") ||
		!strings.Contains(got, "reading the cluster") {
		t.Errorf("got\n%s", got)
	}
	if v := m.View(); !v.AltScreen || v.WindowTitle != "ktop t" {
		t.Errorf("alt screen %v, title %q", v.AltScreen, v.WindowTitle)
	}
}

func TestUnprintableTextStaysText(t *testing.T) {
	c := state.New()
	m := model(t, c, terminal{full, 80, 24}, func(cfg *Config, f *state.Frame) {
		cfg.Title = "evil\x1b]0;owned\a"
		cfg.Status = func() string { return "two\nlines" }
		f.Lost = &state.Lost{Since: noon, Reason: "bad\x1b[2Jnews"}
	})
	got := m.View().Content
	if strings.Contains(got, "\x1b]") || strings.Contains(got, "\x1b[2J") || strings.Count(got, "\n") != 23 {
		t.Errorf("text from outside steers the terminal: %q", got)
	}
}

func TestValidate(t *testing.T) {
	read := func(int) state.Frame { return state.Frame{} }
	for _, c := range []Config{{}, {Read: read, Interval: time.Millisecond}, {Read: read, Interval: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// BenchmarkRender measures one redraw of a cluster of 1,000 nodes after a new frame: sorting, layout
// and drawing.
func BenchmarkRender(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		b.Run(fmt.Sprintf("nodes=1000/%dx%d", size[0], size[1]), func(b *testing.B) {
			c := sample(1000, false)
			m := model(b, c, terminal{full, size[0], size[1]}, func(cfg *Config, _ *state.Frame) { cfg.Sort = state.By(state.ByCPU) })
			msg := frameMsg{frame: c.Frame(noon, 0)}
			b.ReportAllocs()
			for b.Loop() {
				m.Update(msg)
				m.View()
			}
		})
	}
}

// TestDocumentedScreens: parts of the screens are as people know them. docs/reference/ktop.md shows some of them (TestDocumentedKeys).
func TestDocumentedScreens(t *testing.T) {
	var out strings.Builder
	all := documented(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "== %s\n%s", name, all[name].excerpt())
	}
	golden.Check(t, "documented.txt", out.String())
}

// shown is a part of a screen after some keys.
type shown struct {
	m        *Model
	keys     []string
	from, to int // lines
}

// excerpt presses the keys and returns the lines.
func (s shown) excerpt() string {
	press(s.m, s.keys...)
	lines := strings.SplitAfter(trimmed(ansi.Strip(s.m.View().Content)), "\n")
	return strings.Join(lines[s.from:s.to], "")
}

// documented returns the parts of screens that documentation shows, by name.
func documented(t *testing.T) map[string]shown {
	return map[string]shown{
		"nodes":     {model(t, sample(12, false), terminal{full, 80, 24}, nil), nil, 0, 9},
		"usage":     {model(t, measured(12), terminal{full, 120, 24}, nil), nil, 5, 11},
		"devices":   {model(t, sample(24, true), terminal{full, 120, 24}, nil), nil, 5, 15},
		"map":       {model(t, zoned(100, 3), terminal{full, 80, 24}, nil), []string{"m"}, 6, 11},
		"map-5000":  {model(t, zoned(5000, 3), terminal{full, 80, 24}, nil), []string{"m"}, 6, 11},
		"decisions": {deciding(t), []string{"l"}, 5, 13},
		"events":    {withEvents(t, workloads(zoned(100, 3)), terminal{full, 80, 24}), []string{"e"}, 6, 10},
		"node":      {deciding(t), []string{"j", "j", "enter"}, 5, 13},
		"pod":       {deciding(t), []string{"l", "j", "enter"}, 2, 16},
		"pods":      {deciding(t), []string{"P"}, 5, 9},
	}
}

// deciding is a view of a small cluster with decisions.
func deciding(t *testing.T) *Model {
	c := sample(12, false)
	return model(t, c, terminal{full, 80, 24}, answering(c, decided(40)))
}
