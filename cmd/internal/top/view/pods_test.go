package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/decision/record"
)

// podDetails are the details of a pod, as the schedulers and the API server tell them.
func podDetails(c *state.Cluster, ask state.PodAsk) *state.PodDetails {
	p := &state.PodDetails{Decision: ask.Decision}
	p.ListedPod, p.Waits, p.Found = c.Pod(ask.Namespace, ask.Name)
	for _, e := range someEvents()[:3] {
		if p.Found {
			p.Events = append(p.Events, e)
		}
	}
	switch {
	case ask.Name == "away":
		p.DecisionErr, p.EventsErr = errAway, errors.New("list the events: forbidden")
	case ask.Decision != nil:
		p.Explained = "Pod " + ask.Namespace + "/" + ask.Name + ", scheduler gnn.\nNetwork gnn (weights b59c5f61d3727281) chose " + p.Node +
			" among 6 feasible nodes in 72 µs.\n\nNODE    SCORE\n" + p.Node + "  -0.37437  chosen\n"
	}
	return p
}

func TestGoldenPods(t *testing.T) {
	c := workloads(sample(12, false))
	c.SetPod(state.Pod{
		Namespace: "shop", Name: "valiant-maple-6f7c9d8b5-gcjkv", Status: "CrashLoopBackOff", Workload: "Deployment/valiant-maple",
		Scheduler: "gnn", Node: "node-2", CPU: 500, Memory: 1 << 30, Created: noon.Add(-time.Hour),
	}, noon)
	for _, x := range []struct {
		name          string
		width, height int
		keys          []string
	}{
		{"pods.txt", 80, 24, []string{"P"}},
		{"pods-200x50.txt", 200, 50, []string{"P"}},
		{"pods-narrow.txt", 40, 12, []string{"P", "G"}},
		{"pod-waits.txt", 80, 24, []string{"p", "enter"}},
		{"pod-decision.txt", 80, 24, []string{"l", "j", "enter"}},
		{"pod-decision-200x50.txt", 200, 50, []string{"l", "j", "enter"}},
		{"pod-narrow.txt", 40, 12, []string{"l", "j", "enter", "j"}},
	} {
		m := model(t, c, terminal{full, x.width, x.height}, answering(c, decided(20)))
		press(m, x.keys...)
		golden.Check(t, x.name, trimmed(ansi.Strip(m.View().Content)))
	}
}

// TestEnterLeadsOn: Enter on a pod, a decision and an event opens the row's object, and Esc leads back.
func TestEnterLeadsOn(t *testing.T) {
	c := workloads(sample(12, false))
	for _, x := range []struct {
		keys  []string
		want  string // the screen
		shows string
	}{
		{[]string{"P", "j", "enter"}, "pod", "Events"},
		{[]string{"p", "enter"}, "pod", "without a node"},
		{[]string{"l", "j", "enter"}, "pod", "Network gnn"},
		{[]string{"e", "enter"}, "pod", "shop/web-0"},
		{[]string{"j", "enter", "enter"}, "pod", "on node-0"},
	} {
		m := model(t, c, terminal{full, 120, 40}, answering(c, decided(20)))
		press(m, x.keys...)
		if screen := ansi.Strip(m.View().Content); name(m) != x.want || !strings.Contains(screen, x.shows) {
			t.Errorf("%v leads to %s, want %s with %q:\n%s", x.keys, name(m), x.want, x.shows, screen)
		}
		for range x.keys {
			press(m, "esc")
		}
		if name(m) != "nodes" {
			t.Errorf("%v: Esc leads to %s", x.keys, name(m))
		}
	}
}

// The screen gives a reason for each unknown detail of a pod.
func TestPodWithoutAnswers(t *testing.T) {
	c := sample(2, false)
	m := model(t, c, terminal{full, 100, 30},
		answering(c, []state.Decision{{Counted: true, Record: record.Record{Namespace: "default", Pod: "away"}}}))
	press(m, "l", "enter")
	screen := ansi.Strip(m.View().Content)
	for _, want := range []string{"default/away", "not in the cluster any more", "connection refused", "is one running?",
		"list the events: forbidden"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	press(m, "esc", "P", "enter")
	if screen := ansi.Strip(m.View().Content); !strings.Contains(screen, "no scheduler that is asked knows a decision") {
		t.Errorf("without a decision:\n%s", screen)
	}
}

// If no node has a figure, the map explains its absence.
func TestMapWithoutGPUs(t *testing.T) {
	m := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	for _, k := range []string{"D", "U", "V"} {
		press(m, "m", k)
		if screen := ansi.Strip(m.View().Content); strings.Contains(screen, "??") || !strings.Contains(screen, "no node has GPUs") &&
			k == "D" || !strings.Contains(screen, "CPU requested") {
			t.Errorf("%s:\n%s", k, screen)
		}
		press(m, "m")
	}
	for _, want := range []string{"memory requested", "CPU requested"} {
		if press(m, "m", "tab"); !strings.Contains(ansi.Strip(m.View().Content), want) {
			t.Errorf("Tab does not lead to %s", want)
		}
		press(m, "m")
	}
}
