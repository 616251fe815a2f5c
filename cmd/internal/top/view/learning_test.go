package view

import (
	"math"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/plugin/course"
)

// learned is n samples, every 10 s, of profiles that learn. The trainer reports from the sixth sample on.
func learned(n int, profiles ...string) course.Samples {
	s := course.Samples{Profiles: map[string]map[string]course.Column{}}
	for i := range n {
		s.Times = append(s.Times, noon.Unix()-int64(10*(n-1-i)))
	}
	for k, profile := range profiles {
		columns := map[string]course.Column{}
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
		add("overruled", 0, func(i float64) float64 { return math.Floor(i / 7) })
		add("explored", 0, func(i float64) float64 { return math.Floor(60 * (1 - math.Exp(-i/40))) })
		add("epsilon", 0, func(i float64) float64 { return 0.1*math.Exp(-i/40) + 0.01 })
		add("waited", 0, func(i float64) float64 { return math.Floor(i / 20) })
		add("loads", 0, func(i float64) float64 { return 1 + math.Floor(i/10) })
		add("restarts", 0, func(i float64) float64 { return math.Floor(i / 100) })
		if n < 6 {
			continue
		}
		add("read", 6, func(i float64) float64 { return 80 * i })
		add("updates", 6, func(i float64) float64 { return 20 * (i - 5) })
		add("passed", 6, func(i float64) float64 { return math.Floor(i / 12) })
		add("refused", 6, func(i float64) float64 { return math.Floor(i / 50) })
		add("stale", 6, func(float64) float64 { return 0 })
		add("missing", 6, func(float64) float64 { return 3 })
		add("cost", 6, func(i float64) float64 { return 0.05 + 0.2*math.Exp(-i/60) + 0.01*math.Sin(i/3) })
		add("reward", 6, func(i float64) float64 { return -0.02 + 0.0001*i })
		add("loss", 6, func(i float64) float64 { return 0.4*math.Exp(-i/30) + 0.002*math.Cos(i) })
		add("gradient_norm", 6, func(i float64) float64 { return 3 * math.Exp(-i/80) })
		add("score", 12, func(i float64) float64 { return 1.2 - i/400 })
		add("score_limit", 12, func(i float64) float64 { return 1.25 - i/400 })
	}
	return s
}

// teaching gives a view a scheduler's samples of learning.
func teaching(s course.Samples, err error) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(state.Ask) state.Details { return state.Details{Learning: s, LearningErr: err} }
	}
}

func TestGoldenLearning(t *testing.T) {
	small := sample(12, false)
	for _, c := range []struct {
		name          string
		samples       course.Samples
		err           error
		look          Look
		width, height int
		keys          []string
	}{
		{"learning.txt", learned(150, "gnn"), nil, full, 80, 24, []string{"t"}},
		{"learning-200x50.txt", learned(700, "gnn"), nil, full, 200, 50, []string{":", "l", "e", "enter", "j", "j"}},
		{"learning-ascii.txt", learned(150, "gnn"), nil, ascii, 80, 24, []string{"t", "G"}},
		{"learning-ascii-200x50.txt", learned(100, "gnn"), nil, ascii, 200, 50, []string{"t"}},
		{"learning-narrow.txt", learned(100, "gnn"), nil, full, 40, 12, []string{"t"}},
		{"learning-two.txt", learned(60, "gnn", "acgnn"), errAway, full, 80, 24, []string{"t", "/", "l", "o", "s", "s", "enter"}},
		{"learning-early.txt", learned(3, "gnn"), nil, full, 80, 24, []string{"t"}},
		{"learning-none.txt", course.Samples{}, nil, full, 80, 24, []string{"t"}},
		{"learning-away.txt", course.Samples{}, errAway, full, 80, 24, []string{"t"}},
	} {
		m := model(t, small, terminal{c.look, c.width, c.height}, teaching(c.samples, c.err))
		press(m, c.keys...)
		text := ansi.Strip(m.View().Content)
		golden.Check(t, c.name, trimmed(text))
		if c.look == ascii {
			if i := strings.IndexFunc(text, func(r rune) bool { return r > 126 }); i >= 0 {
				t.Errorf("%s: %q is not ASCII", c.name, text[i:i+4])
			}
		}
	}
}

// A name that a scheduler sends cannot hold a sequence for the terminal.
func TestLearningIsPrintable(t *testing.T) {
	s := learned(20, "gnn\x1b[2J")
	s.Profiles["gnn\x1b[2J"]["loss\x1b]0;x\a"] = s.Profiles["gnn\x1b[2J"]["loss"]
	m := model(t, sample(3, false), terminal{plain, 120, 40}, teaching(s, nil))
	press(m, "t")
	if text := m.View().Content; strings.Contains(text, "\x1b[2J") || strings.ContainsAny(text, "\a") {
		t.Errorf("%q", text)
	}
}

// In every window, each line fits, and a click chooses the figure under it, also where a figure has several lines.
func TestLearningFits(t *testing.T) {
	s := learned(700, "gnn")
	for width := 1; width <= 200; width += 7 {
		for height := 1; height <= 90; height += 3 {
			m := model(t, sample(3, false), terminal{full, width, height}, teaching(s, nil))
			press(m, "t")
			for _, line := range m.lines() {
				if w := ansi.StringWidth(line); w > width {
					t.Fatalf("%d×%d: a line is %d wide", width, height, w)
				}
			}
		}
	}
	m := model(t, sample(3, false), terminal{plain, 200, 90}, teaching(s, nil))
	press(m, "t")
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	for y, line := range lines {
		if strings.HasPrefix(line, "loss ") {
			m.Update(tea.MouseClickMsg{X: 20, Y: y + 2, Button: tea.MouseLeft}) // the third line of its curve
		}
	}
	if about := ansi.Strip(m.View().Content); !strings.Contains(about, "loss: loss of the updates") {
		t.Errorf("the click chose another figure:\n%s", about)
	}
}
