package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
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
		fatal.Golden(t, c.name+".txt", trimmed(text))
		if i := strings.IndexFunc(text, func(r rune) bool { return r > 126 }); c.look == ascii && i >= 0 {
			t.Errorf("%s: %q is not ASCII", c.name, text[i:i+4])
		}
	}
	fatal.Golden(t, "80x24.ansi", model(t, sample(12, false), terminal{full, 80, 24}, nil).View().Content)
	fatal.Golden(t, "no-color.ansi", model(t, sample(12, false), terminal{plain, 80, 24}, nil).View().Content)
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

var twoServers = []string{"127.0.0.1:10259", "127.0.0.1:10260"}

// besideEachOther is a cluster with pods of a third scheduler.
func besideEachOther() *state.Cluster {
	c := sample(12, false)
	for i := range 40 {
		c.SetPod(state.Pod{
			Namespace: "default", Name: fmt.Sprint("db-", i), Node: fmt.Sprint("node-", i*5%11), Scheduler: "acdqn", CPU: 250, Memory: 1 << 28,
			Created: noon.Add(-time.Minute), Scheduled: noon.Add(-time.Duration(i) * time.Second),
		}, noon)
	}
	return c
}

// ofTwo gives a view decisions of two schedulers.
func ofTwo(list []state.Decision, silent ...state.Silent) func(*Config, *state.Frame) {
	for i := range list {
		list[i].Server = twoServers[0]
		if i%3 == 0 {
			list[i].Profile, list[i].Server = "acdqn", twoServers[1]
		}
	}
	return func(cfg *Config, f *state.Frame) {
		answering(besideEachOther(), list, silent...)(cfg, f)
		cfg.Servers = twoServers
	}
}

// Where a scheduler tells nothing at all, the API says what both have bound.
func TestVersusByTheAPI(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 100, 40}, answering(sample(12, false), nil, away...))
	press(m, "v")
	got := ansi.Strip(m.View().Content)
	for _, want := range []string{"ask the scheduler: connection refused", "default-scheduler (bound pods)", "gnn (bound pods)",
		"110 on 12 nodes, most 20"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	press(m, "/")
	if typed(m, "no-such-pod"); !strings.Contains(m.View().Content, "is one running?") {
		t.Errorf("nothing passes the filter:\n%s", ansi.Strip(m.View().Content))
	}
}

// o shows the learning and the shadow findings of the next scheduler. A late answer of the previous scheduler is not shown as the next
// one's.
func TestNextServer(t *testing.T) {
	m := model(t, sample(3, false), terminal{full, 100, 40}, func(cfg *Config, _ *state.Frame) {
		cfg.Servers = twoServers
		cfg.Details = func(ask state.Ask) state.Details {
			if ask.Server == 1 {
				return state.Details{LearningErr: errAway, ShadowErr: errAway}
			}
			return state.Details{Learning: learned(20, "gnn"), Shadow: shadow.Live{Report: shadow.Report{Version: "v1", Profile: "gnn"}}}
		}
	})
	shows := func(what string, texts ...string) {
		t.Helper()
		screen := ansi.Strip(m.View().Content)
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				t.Errorf("%s: no %q in\n%s", what, text, screen)
			}
		}
	}
	press(m, "t")
	shows("the first", twoServers[0]+" (o: next of 2)", "placements")
	late := m.read(true)()
	_, read := m.Update(tea.KeyPressMsg{Code: 'o', Text: "o"})
	shows("before the answer", twoServers[1], "reading…")
	if m.Update(late); strings.Contains(m.View().Content, "placements") {
		t.Error("the answer of the first one is shown as that of the second")
	}
	m.Update(read())
	shows("the second", twoServers[1], "connection refused")
	press(m, "s")
	shows("its shadow", twoServers[1], "connection refused")
	press(m, "o")
	shows("the shadow of the first", twoServers[0], "gnn () in the shadow")
	press(m, "l")
	if press(m, "o"); m.server != 0 {
		t.Error("o chooses a scheduler where all are shown")
	}
	one := model(t, sample(3, false), terminal{full, 80, 24}, teaching(learningcurve.Samples{}, nil))
	if press(one, "t", "o"); one.server != 0 || strings.Contains(one.View().Content, "next of") {
		t.Error("o chooses among one")
	}
}

// found returns the report of a scheduler in the shadow after an hour, with n of the last bindings.
func found(t testing.TB, n int) shadow.Live {
	t.Helper()
	l, err := shadow.ParseLive([]byte(`{"version": "gnnsched.shadow/v1", "profile": "gnn", "policy": "gnn", "fingerprint": "74ddf5c6d924fe74", "of": ["default-scheduler"], "objective": "balance",
		"from": "2026-03-01T11:00:00Z", "to": "2026-03-01T12:00:00Z", "limits": {"pods": 1000, "failures": 0.001, "p99": 0.1, "matters": 0.01},
		"counts": {"bound": 3434, "compared": 3400, "results": {"same": 1059, "equal": 243, "different": 2090, "unschedulable": 8}, "waitingOurs": 2, "fallbacks": 0},
		"results": [{"what": "same", "text": "the same node", "pods": 1059, "share": 0.31}, {"what": "equal", "text": "an equally good node", "pods": 243, "share": 0.07}, {"what": "different", "text": "another node", "pods": 2090, "share": 0.62},
			{"what": "only", "text": "only one node fits", "pods": 0, "share": 0}, {"what": "unschedulable", "text": "no node fits", "fails": true, "pods": 8, "share": 0.002}, {"what": "infeasible", "text": "a node that upstream's filters refuse", "fails": true, "pods": 0, "share": 0}],
		"agreement": 0.384, "oneStep": {"better": 1254, "equal": 1364, "worse": 782, "mean": 0.000168}, "time": {"median": 0.00031, "p99": 0.01405, "max": 0.29129},
		"failures": [{"pod": "shop/older", "what": "unschedulable", "theirs": "node-2", "why": "3 node(s) had untolerated taint(s)"}, {"pod": "shop/big", "what": "unschedulable", "theirs": "node-1", "why": "9 Insufficient cpu, 3 Insufficient memory"}],
		"placed": 0.41, "whole": {"seconds": 3600, "theirs": 0.00765, "ours": 0.00621, "theirsWaiting": 0, "oursWaiting": 0.4},
		"gain": {"mean": 0.00144, "low": 0.00063, "high": 0.00226}, "moreWaiting": {"mean": 0.4, "low": -0.1, "high": 0.9},
		"verdict": {"answer": "not yet", "why": ["8 of 3400 pods would find no node, though they got one (limit 0.1 %)"], "notes": ["only 41 % of the pods that run were placed since the start; the effect is not complete"]}}`))
	fatal.If(t, err)
	for i := range 60 {
		theirs := 0.0076 + 0.001*float64(i%7)/7
		l.Course = append(l.Course, shadow.Block{Seconds: 60, Theirs: theirs, Ours: theirs - 0.00004*float64(min(i, 40))})
	}
	for i := range n {
		x := shadow.Comparison{
			Time: noon.Add(-time.Duration(i) * time.Second), Pod: fmt.Sprintf("shop/web-%d", 40-i), What: "different",
			Theirs: fmt.Sprint("node-", i%4), Node: fmt.Sprint("node-", 4+i%5), Gained: 0.0004 - 0.0001*float64(i%6),
			Took: 0.0003 + 0.0001*float64(i%9),
		}
		switch i % 5 {
		case 1:
			x.What, x.Node, x.Gained = "same", x.Theirs, 0
		case 3:
			x.What, x.Gained = "equal", 0
		}
		if i == 2 {
			x.Pod, x.What, x.Node, x.Gained, x.Why = "shop/big", "unschedulable", "", 0, "9 Insufficient cpu, 3 Insufficient memory"
		}
		l.Recent = append(l.Recent, x)
	}
	return l
}

// shadowing gives a view the answer of a shadow scheduler.
func shadowing(l shadow.Live, err error) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(state.Ask) state.Details { return state.Details{Shadow: l, ShadowErr: err} }
	}
}

// Enter opens the pod of a binding.
func TestShadowOpensPod(t *testing.T) {
	m := model(t, sample(12, false), terminal{plain, 80, 24}, shadowing(found(t, 40), nil))
	press(m, "s", "j", "enter")
	if s, is := m.page().screen.(*podScreen); !is || s.ask.Pod != podTarget(m.details.Shadow.Recent[1].Pod).pod || s.ask.Pod.Name == "" {
		t.Errorf("another page is open:\n%s", ansi.Strip(m.View().Content))
	}
}

// learned is n samples, every 10 s, of profiles that learn. The trainer reports from the sixth sample on.
func learned(n int, profiles ...string) learningcurve.Samples {
	s := learningcurve.Samples{Profiles: map[string]map[string]learningcurve.Column{}}
	for i := range n {
		s.Times = append(s.Times, noon.Unix()-int64(10*(n-1-i)))
	}
	for k, profile := range profiles {
		columns := map[string]learningcurve.Column{}
		s.Profiles[profile] = columns
		add := func(name string, from int, value func(i float64) float64) {
			for i := range n {
				v := math.NaN()
				if i >= from {
					v = value(float64(i + 40*k))
				}
				columns[name] = append(columns[name], v)
			}
		}
		add("sent", 0, func(i float64) float64 { return math.Floor(80*i + 200*math.Sin(i/9)) })
		add("dropped", 0, func(i float64) float64 { return math.Floor(max(i-50, 0) / 4) })
		add("unbound", 0, func(float64) float64 { return 0 })
		add("explored", 0, func(i float64) float64 { return math.Floor(60 * (1 - math.Exp(-i/40))) })
		add("epsilon", 0, func(i float64) float64 { return 0.1*math.Exp(-i/40) + 0.01 })
		add("loads", 0, func(i float64) float64 { return 1 + math.Floor(i/10) })
		add("restarts", 0, func(i float64) float64 { return math.Floor(i / 100) })
		if n < 6 {
			continue
		}
		add("read", 6, func(i float64) float64 { return 80 * i })
		add("updates", 6, func(i float64) float64 { return 20 * (i - 5) })
		add("passed", 6, func(i float64) float64 { return math.Floor(i / 12) })
		add("refused", 6, func(i float64) float64 { return math.Floor(i / 50) })
		add("missing", 6, func(float64) float64 { return 3 })
		add("cost", 6, func(i float64) float64 { return 0.05 + 0.2*math.Exp(-i/60) + 0.01*math.Sin(i/3) })
		add("loss", 6, func(i float64) float64 { return 0.4*math.Exp(-i/30) + 0.002*math.Cos(i) })
		add("gradient_norm", 6, func(i float64) float64 { return 3 * math.Exp(-i/80) })
		add("score", 12, func(i float64) float64 { return 1.2 - i/400 })
		add("score_limit", 12, func(i float64) float64 { return 1.25 - i/400 })
	}
	return s
}

// teaching gives a view a scheduler's samples of learning.
func teaching(s learningcurve.Samples, err error) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(state.Ask) state.Details { return state.Details{Learning: s, LearningErr: err} }
	}
}

// The curve of a growing value goes from the lowest to the highest sign, and unknown values are spaces.
func TestCurve(t *testing.T) {
	for want, values := range map[string][]float64{
		" ▁▂▃▄▅▆▇█": {math.NaN(), 0, 1, 2, 3, 4, 5, 6, 7}, "▁▁": {5, 5}, "█▁": {3, -1}, "": nil,
	} {
		_, low, high := binned(values, 9)
		if got := curve(values, low, high); got != want {
			t.Errorf("%v is %q, want %q", values, got, want)
		}
	}
}

// The cells of a curve hold the mean of their values; the oldest may have fewer.
func TestBinned(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values    []float64
		n         int
		want      []float64
		low, high float64
	}{
		{[]float64{1, 2, 3}, 3, []float64{1, 2, 3}, 1, 3},
		{[]float64{1, 2, 3}, 9, []float64{1, 2, 3}, 1, 3},
		{[]float64{1, 2, 3, 4}, 2, []float64{1.5, 3.5}, 1.5, 3.5},
		{[]float64{9, 1, 2, 3, 5}, 3, []float64{9, 1.5, 4}, 1.5, 9},
		{[]float64{nan, nan, 3, nan}, 2, []float64{nan, 3}, 3, 3},
	} {
		got, low, high := binned(c.values, c.n)
		same := len(got) == len(c.want) && low == c.low && high == c.high
		for i := range got {
			same = same && (got[i] == c.want[i] || math.IsNaN(got[i]) && math.IsNaN(c.want[i]))
		}
		if !same {
			t.Errorf("%v in %d: %v from %v to %v, want %v", c.values, c.n, got, low, high, c.want)
		}
	}
}

// The time that curves cover has no zeros at its end, and keeps its units.
func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 50 * time.Second: "50s", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		24*time.Minute + 50*time.Second: "24m50s",
		time.Hour:                       "1h", 100 * time.Minute: "1h40m", time.Hour + 10*time.Second: "1h0m10s", 2 * time.Hour: "2h",
		10 * time.Hour: "10h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
