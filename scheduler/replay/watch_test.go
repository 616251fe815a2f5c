package replay

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// notes is a watcher that writes down its calls.
type notes struct{ frames, placed, waited []string }

func (n *notes) Frame(at float64, nodes []*cluster.Node, waiting int) {
	text := fmt.Sprintf("%v: %d wait", at, waiting)
	for _, x := range nodes {
		text += fmt.Sprintf(", %s %d", x.Name, x.Requested.MilliCPU/1000)
	}
	n.frames = append(n.frames, text)
}

func (n *notes) Placed(p Placement) {
	text := fmt.Sprintf("%v: %s on %s after %v", p.At, p.Pod.Name, p.Node, p.Waited)
	if p.By != nil {
		text += fmt.Sprintf(", %d fit, %q is next", p.By.Feasible, p.By.RunnerUp)
	}
	n.placed = append(n.placed, text)
}

func (n *notes) Waited(pod *record.Pod, seconds float64, placed bool) {
	n.waited = append(n.waited, fmt.Sprintf("%s %v %v", pod.Name, seconds, placed))
}

// A watcher sees the cluster at equal distances, each pod that gets a node, and how long pods waited. Watching changes nothing.
func TestWatch(t *testing.T) {
	s := source([]record.Pod{
		pod("old", -50), pod("web", 10, func(p *record.Pod) { p.Node, p.Ended, p.End = "b", seconds(62), record.Deleted }),
		pod("big", 20, func(p *record.Pod) { p.MilliCPU, p.Bound, p.Node = 8000, 0, "" }),
		pod("daemon", 30, func(p *record.Pod) { p.Daemon, p.OwnerKind = true, "DaemonSet" }),
	}, node("a"), node("b"))
	for _, c := range []struct {
		name                   string
		play                   func(n *notes) (Course, error)
		frames, placed, waited []string
	}{
		{
			"really", func(n *notes) (Course, error) {
				return Real(t.Context(), s, Config{
					Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 10, Watch: n, Frames: 5,
				})
			},
			[]string{"0: 0 wait, a 1, b 0", "25: 1 wait, a 1, b 1", "50: 1 wait, a 2, b 1", "75: 1 wait, a 2, b 0", "100: 1 wait, a 2, b 0"},
			[]string{"12: web on b after 2"}, []string{"web 2 true", "big 80 false"},
		},
		{
			"simulated", func(n *notes) (Course, error) {
				return Run(t.Context(), s, Config{
					Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 10, Watch: n, Frames: 3,
				})
			},
			[]string{"0: 0 wait, a 1, b 0", "50: 1 wait, a 3, b 0", "100: 1 wait, a 2, b 0"},
			[]string{`10: web on a after 0, 2 fit, "b" is next`}, []string{"web 0 true", "big 80 false"},
		},
	} {
		var n notes
		out, err := c.play(&n)
		fatal.If(t, err)
		slices.Sort(n.waited)
		slices.Sort(c.waited)
		if !slices.Equal(n.frames, c.frames) || !slices.Equal(n.placed, c.placed) || !slices.Equal(n.waited, c.waited) {
			t.Errorf("%s: %q\n%q\n%q", c.name, n.frames, n.placed, n.waited)
		}
		if len(out.Waits) != len(n.waited) {
			t.Errorf("%s: %d waits were told of %d", c.name, len(n.waited), len(out.Waits))
		}
	}
	plain := Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 10}
	watched := plain
	watched.Watch, watched.Frames = &notes{}, 7
	a, err := Run(t.Context(), s, plain)
	fatal.If(t, err)
	if b, err := Run(t.Context(), s, watched); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("watched: %+v, else %+v (%v)", b, a, err)
	}
}
