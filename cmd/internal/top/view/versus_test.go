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
	if err != nil {
		t.Fatal(err)
	}
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
