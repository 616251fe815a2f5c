package view

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

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

// zoned is a sample whose workers are spread over zones.
func zoned(workers, zones int) *state.Cluster {
	c := sample(workers, true)
	f := c.Frame(noon, 0)
	for i, n := range f.Nodes {
		if n.Worker {
			n.Zone = fmt.Sprintf("zone-%c", 'a'+i%zones)
			c.SetNode(n)
		}
	}
	used := map[string]state.Measured{}
	for i, n := range f.Nodes {
		if i%7 != 0 {
			used[n.Name] = state.Measured{CPU: n.CPU.Requested / 3, Memory: n.Memory.Requested / 2}
		}
	}
	c.SetUsed(used)
	return c
}

// TestHeatMapShowsEveryNode: in every window, each worker is in one cell, and the cell is visible if the window has a line for each zone.
func TestHeatMapShowsEveryNode(t *testing.T) {
	for _, nodes := range []int{1, 10, 333, 5000} {
		m := model(t, zoned(nodes, 3), terminal{full, 80, 24}, nil)
		press(m, "m")
		for _, size := range [][2]int{{80, 24}, {200, 50}, {31, 12}, {10, 9}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			s := m.page().screen.(*heatScreen)
			l := s.layout(&m.canvas)
			seen := 0
			for _, line := range l.lines {
				for i := range l.cells(line) {
					seen += len(l.cell(line, i))
				}
				if used := l.label + l.cells(line)*l.width; used > size[0] && l.perRow > 1 {
					t.Errorf("%d nodes in %v: a line of %d", nodes, size, used)
				}
			}
			if seen != nodes || len(l.lines) > max(m.rows(), 3) {
				t.Errorf("%d nodes in %v: %d seen on %d lines of %d", nodes, size, seen, len(l.lines), m.rows())
			}
		}
	}
}

// TestHeatMapLeadsToNodes: Enter opens the chosen node, and Tab leaves out GPUs where there are none.
func TestHeatMapLeadsToNodes(t *testing.T) {
	m := model(t, zoned(100, 3), terminal{full, 80, 24}, nil)
	press(m, "m", "j", "right", "right")
	want := m.chosenTarget().node
	s := m.page().screen.(*heatScreen)
	if l := s.layout(&m.canvas); want != l.lines[1].nodes[2].Name {
		t.Fatalf("chosen %q", want)
	}
	if press(m, "enter"); name(m) != "node" || !strings.Contains(ansi.Strip(m.View().Content), want) {
		t.Errorf("Enter leads to %s", name(m))
	}
	if press(m, "esc"); name(m) != "map" {
		t.Errorf("Esc leads to %s", name(m))
	}
	without := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	press(without, "m")
	for _, want := range []string{"memory requested", "CPU requested"} {
		if press(without, "tab"); !strings.Contains(ansi.Strip(without.View().Content), want) {
			t.Errorf("Tab does not lead to %s", want)
		}
	}
}

// TestBar: a bar has the given width and grows with the fraction; only 0 looks empty, and only 1 or
// more looks full.
func TestBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newStyles(Look{Color: rapid.Bool().Draw(t, "color")})
		width := rapid.IntRange(1, 50).Draw(t, "width")
		a, b := rapid.Float64Range(0, 1.5).Draw(t, "a"), rapid.Float64Range(0, 1.5).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		length := func(f float64) float64 {
			s := ansi.Strip(st.Bar(width, f, false))
			if ansi.StringWidth(s) != width {
				t.Fatalf("%q is not %d wide", s, width)
			}
			n := float64(strings.Count(s, "━")) + float64(strings.Count(s, "╸"))/2
			if (n == 0) != (f == 0) && width > 1 || (n == float64(width)) != (f >= 1) && width > 1 {
				t.Fatalf("%v is drawn as %q", f, s)
			}
			return n
		}
		if length(a) > length(b) {
			t.Fatalf("%v is longer than %v", a, b)
		}
	})
}

// A name that is cut keeps its end, by which the pods of a workload differ.
func TestFitMiddle(t *testing.T) {
	st := newStyles(Look{})
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 34, "shop/valiant-maple-6f7c9d8b5-gcjkv"},
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 24, "shop/valiant-maple…gcjkv"},
		{"gnnsched-sim/valiant-maple-6f7c9d8b5-gcjkv", 24, "gnnsched-sim/valia…gcjkv"},
		{"name/without.dashes.but.very.long", 20, "name/with….very.long"},
		{"short/", 8, "short/  "},
	} {
		if got := st.fitMiddle(c.name, c.width); got != c.want {
			t.Errorf("%s in %d: %q, want %q", c.name, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, width := rapid.StringMatching(`[a-zé世/-]{0,40}`).Draw(t, "name"), rapid.IntRange(0, 50).Draw(t, "width")
		st := newStyles(Look{})
		if got := st.fitMiddle(s, width); ansi.StringWidth(got) != width {
			t.Fatalf("%q in %d cells is %q", s, width, got)
		}
	})
}
