package view

import (
	"errors"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision"
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
		answering(c, []state.Decision{{Counted: true, Record: decision.Record{Namespace: "default", Pod: "away"}}}))
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
