package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

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
