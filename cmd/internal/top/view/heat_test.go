package view

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/golden"
)

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

func TestGoldenHeatMap(t *testing.T) {
	for _, c := range []struct {
		name          string
		cluster       *state.Cluster
		look          Look
		width, height int
		keys          []string
	}{
		{"heat-10.txt", sample(10, false), full, 80, 24, []string{"m", "right"}},
		{"heat-10-200x50.txt", sample(10, false), full, 200, 50, []string{"m"}},
		{"heat-100.txt", zoned(100, 3), full, 80, 24, []string{"m", "j"}},
		{"heat-100-used.txt", zoned(100, 3), full, 80, 24, []string{"m", "U"}},
		{"heat-100-gpu.txt", zoned(100, 3), full, 80, 24, []string{"m", "D"}},
		{"heat-1000.txt", zoned(1000, 3), full, 80, 24, []string{"m", "j", "j", "right"}},
		{"heat-1000-200x50.txt", zoned(1000, 3), full, 200, 50, []string{"m"}},
		{"heat-5000.txt", zoned(5000, 3), full, 80, 24, []string{"m"}},
		{"heat-5000-ascii.txt", zoned(5000, 3), ascii, 80, 24, []string{"m", "tab"}},
		{"heat-5000-200x50.txt", zoned(5000, 3), plain, 200, 50, []string{"m"}},
		{"heat-zones.txt", zoned(200, 26), full, 80, 24, []string{"m", "G"}},
		{"heat-none.txt", state.New(), full, 80, 24, []string{"m", "enter"}},
	} {
		m := model(t, c.cluster, terminal{c.look, c.width, c.height}, nil)
		press(m, c.keys...)
		golden.Check(t, c.name, trimmed(ansi.Strip(m.View().Content)))
	}
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

// TestHeatMapLeadsToNodes: Enter and a second click open the chosen node.
func TestHeatMapLeadsToNodes(t *testing.T) {
	m := model(t, zoned(100, 3), terminal{full, 80, 24}, nil)
	press(m, "m", "j", "right", "right")
	want := m.chosenTarget().node
	s := m.page().screen.(*heatScreen)
	l := s.layout(&m.canvas)
	if want == "" || want != l.lines[1].nodes[2].Name {
		t.Fatalf("chosen %q", want)
	}
	press(m, "g", "left", "left")
	click := tea.MouseClickMsg{X: l.label + 2*l.width, Y: len(m.header) + 2 + 1, Button: tea.MouseLeft}
	if m.Update(click); m.chosenTarget().node != want {
		t.Errorf("a click chose %s, want %s", m.chosenTarget().node, want)
	}
	if m.Update(click); name(m) != "node" || !strings.Contains(ansi.Strip(m.View().Content), want) {
		t.Errorf("the second click leads to %s", name(m))
	}
	if press(m, "esc"); name(m) != "map" {
		t.Errorf("Esc leads to %s", name(m))
	}
}
