package view

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
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
	m := New(cfg)
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

// golden is a screen to compare with a file.
type goldenCase struct {
	name          string
	cluster       *state.Cluster
	change        func(*Config, *state.Frame)
	look          Look
	width, height int
	keys          string // letters and names of keys between spaces
}

// TestGolden compares screens with the files in testdata, without colours so that a person can read them. Two more files have them: one
// as it is, and one under NO_COLOR.
func TestGolden(t *testing.T) {
	small, thousand, zones, servers := sample(12, false), sample(1000, false), zoned(100, 3), besideEachOther()
	gone, begun := state.Silent{Server: twoServers[1], Err: errAway}, found(t, 0)
	begun.Course, begun.Gain, begun.MoreWaiting, begun.Failures = nil, nil, nil, nil
	told := func(list []state.Decision, silent ...state.Silent) func(*Config, *state.Frame) {
		return answering(small, list, silent...)
	}
	pods := workloads(sample(12, false))
	pods.SetPod(state.Pod{
		Namespace: "shop", Name: "valiant-maple-6f7c9d8b5-gcjkv", Status: "CrashLoopBackOff", Workload: "Deployment/valiant-maple",
		Scheduler: "gnn", Node: "node-2", CPU: 500, Memory: 1 << 30, Created: noon.Add(-time.Hour),
	}, noon)
	for _, c := range []goldenCase{
		{"80x24", small, nil, full, 80, 24, ""},
		{"200x50", sample(100, true), nil, full, 200, 50, ""},
		{"80x24-gpu", sample(12, true), nil, full, 80, 24, ""},
		{"1000-nodes-scrolled", thousand, nil, full, 80, 24, "pgdown pgdown j j k"},
		{"filtered", thousand, nil, full, 80, 24, "/ n o d e - 1 enter"},
		{"filter-nothing", small, nil, full, 80, 24, "/ n o w h e r e enter"},
		{"ascii", small, nil, ascii, 80, 24, ""},
		{"40x10", small, nil, full, 40, 10, ""},
		{"20x5", small, nil, full, 20, 5, ""},
		{"empty", state.New(), nil, full, 80, 24, ""},
		{"disconnected", small, func(_ *Config, f *state.Frame) {
			f.Lost = &state.Lost{Since: noon.Add(-42 * time.Second), Reason: "connection refused"}
		}, full, 80, 24, ""},
		{"status", small, func(c *Config, _ *state.Frame) {
			c.Status = func() string { return "round 1 of 2: gnn, 340 of 500 pods" }
		}, full, 80, 24, ""},
		{"used", measured(12), nil, full, 120, 24, ""},
		{"pending", small, nil, full, 80, 24, "p"},
		{"pending-wide", small, nil, full, 130, 20, "p down"},
		{"help", small, nil, full, 80, 24, "?"},
		{"help-narrow", small, nil, full, 50, 16, "? j j"},
		{"heat-10", sample(10, false), nil, full, 80, 24, "m right"},
		{"heat-100", zones, nil, full, 80, 24, "m j"},
		{"heat-1000", zoned(1000, 3), nil, full, 80, 24, "m tab j j right"},
		{"heat-5000-ascii", zoned(5000, 3), nil, ascii, 80, 24, "m tab tab"},
		{"heat-none", state.New(), nil, full, 80, 24, "m enter"},
		{"decisions", small, told(decided(40)), full, 80, 24, "l"},
		{"decisions-200x50", small, told(decided(100)), full, 200, 50, "l"},
		{"decisions-devices", small, told(withDevices(decided(12))), full, 200, 20, "l"},
		{"decisions-narrow", small, told(decided(40)), full, 40, 12, "l"},
		{"decisions-shadow", small, told(inShadow(decided(40))), full, 80, 24, "l"},
		{"decisions-away", small, told(nil, away...), full, 80, 24, "l"},
		{"decisions-old", small, told(decided(3), away...), full, 80, 24, "l"},
		{"servers-decisions-gone", servers, ofTwo(decided(40)[:1:1], gone), full, 80, 24, "l"},
		{"servers-versus", servers, ofTwo(decided(40)), full, 80, 24, "v"},
		{"servers-versus-200x50", servers, ofTwo(decided(40)), full, 200, 50, "v"},
		{"servers-versus-gone", servers, ofTwo(decided(40)[1:3], gone), full, 80, 24, "v"},
		{"versus-stock", servers, answering(servers, decided(4)), full, 80, 24, "v"},
		{"versus-shadow", small, told(inShadow(decided(40))), full, 80, 24, "v"},
		{"versus-filtered", small, told(decided(40)), full, 80, 24, "v / a p p - 3 enter j j"},
		{"node", small, told(decided(40)), full, 80, 24, "j j enter"},
		{"node-away", small, told(nil, away...), full, 80, 24, "j j enter G"},
		{"node-gpu", zones, answering(zones, nil, away...), full, 80, 24, "m enter"},
		{"claims-nodes-200x50", claiming(), answering(claiming(), nil, away...), full, 200, 50, ""},
		{"claims-node-200x50", claiming(), answering(claiming(), nil, away...), full, 200, 50, "j j enter / m l / enter"},
		{"events", pods, answering(pods, nil), full, 80, 24, "e"},
		{"pods", pods, answering(pods, decided(20)), full, 80, 24, "P"},
		{"pods-200x50", pods, answering(pods, decided(20)), full, 200, 50, "P"},
		{"pod-waits", pods, answering(pods, decided(20)), full, 80, 24, "p enter"},
		{"pod-decision", pods, answering(pods, decided(20)), full, 80, 24, "l j enter"},
		{"learning", small, teaching(learned(150, "gnn"), nil), full, 80, 24, "t"},
		{"learning-200x50", small, teaching(learned(700, "gnn"), nil), full, 200, 50, "t j j"},
		{"learning-narrow", small, teaching(learned(100, "gnn"), nil), full, 40, 12, "t"},
		{"learning-two", small, teaching(learned(60, "gnn", "acgnn"), errAway), full, 80, 24, "t / l o s s enter"},
		{"learning-early", small, teaching(learned(3, "gnn"), nil), ascii, 80, 24, "t"},
		{"learning-none", small, teaching(learningcurve.Samples{}, nil), full, 80, 24, "t"},
		{"shadow", small, shadowing(found(t, 40), nil), full, 80, 24, "s"},
		{"shadow-200x50", small, shadowing(found(t, 40), nil), full, 200, 50, "s j"},
		{"shadow-failures", small, shadowing(found(t, 40), nil), full, 80, 24, "s f"},
		{"shadow-narrow", small, shadowing(found(t, 40), nil), ascii, 40, 12, "s"},
		{"shadow-begun", small, shadowing(begun, nil), full, 80, 24, "s"},
		{"shadow-away", small, shadowing(shadow.Live{}, errAway), full, 80, 24, "s"},
	} {
		m := model(t, c.cluster, terminal{c.look, c.width, c.height}, c.change)
		press(m, strings.Fields(c.keys)...)
		text := ansi.Strip(m.View().Content)
		golden.Check(t, c.name+".txt", trimmed(text))
		if i := strings.IndexFunc(text, func(r rune) bool { return r > 126 }); c.look == ascii && i >= 0 {
			t.Errorf("%s: %q is not ASCII", c.name, text[i:i+4])
		}
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
	m := New(Config{Title: "t", Look: ascii, Read: func(int) state.Frame { return state.Frame{} }})
	got := ansi.Strip(m.View().Content)
	if lines := strings.Split(got, "\n"); len(lines) != 24 || !strings.HasPrefix(lines[0], "ktop | t") ||
		!strings.Contains(got, "reading the cluster") {
		t.Errorf("got\n%s", got)
	}
	if v := m.View(); !v.AltScreen || v.WindowTitle != "ktop t" {
		t.Errorf("alt screen %v, title %q", v.AltScreen, v.WindowTitle)
	}
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
		"events":    {deciding(t), []string{"e"}, 6, 10},
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
