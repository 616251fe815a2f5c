package view

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
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
