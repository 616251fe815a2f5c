package replay

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// A pod that arrives when room is freed does not get the room before a pod that already waits.
func TestArrivalsQueue(t *testing.T) {
	full := func(p *record.Pod) { p.MilliCPU, p.Preemption = 4000, "Never" }
	pods := []record.Pod{
		pod("first", 10, full, func(p *record.Pod) { p.Ended, p.End = seconds(30), record.Deleted }),
		pod("waits", 20, full), pod("arrives", 30, full),
	}
	if _, homes := packs(t, source(pods, node("a"))); homes["waits"] != "a" || homes["arrives"] != "" {
		t.Errorf("%v", homes)
	}
	// A higher priority goes first, whenever it arrives.
	pods[2].Priority = 5
	if _, homes := packs(t, source(pods, node("a"))); homes["arrives"] != "a" || homes["waits"] != "" {
		t.Errorf("%v", homes)
	}
}

// A pod that got a node lets a waiting one fit that must be near it, or that spreads together with it.
func TestPlacedPodsWake(t *testing.T) {
	labelled := func(p *record.Pod) { p.Labels = `{"app":"web"}` }
	near := pod("near", 10, func(p *record.Pod) {
		p.Affinity = `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"kubernetes.io/hostname"}]}}`
	})
	if _, homes := packs(t, source([]record.Pod{near, pod("web", 20, labelled)}, node("a"))); homes["near"] != "a" {
		t.Errorf("affinity: %v", homes)
	}
	// Both nodes count for the skew. The second pod fits on b only, which has no room for it until something else is on b.
	spread := `[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"web"}}}]`
	pods := []record.Pod{
		pod("one", -5, labelled),
		pod("two", 10, labelled, func(p *record.Pod) { p.Spread, p.MilliCPU = spread, 3000 }),
		pod("three", 20, labelled, func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}`; p.MilliCPU = 500 }),
	}
	b := node("b", "disk", "ssd")
	b.MilliCPU = 2000
	if _, homes := packs(t, source(pods, node("a"), b)); homes["two"] != "a" {
		t.Errorf("spreading: %v", homes)
	}
}

// Pods of DaemonSets that were preempted come back on their node only. Static pods are not preempted.
func TestDaemonsStay(t *testing.T) {
	daemon := func(p *record.Pod) {
		p.Daemon, p.OwnerKind, p.OwnerName, p.MilliCPU, p.Priority = true, "DaemonSet", "agent", 2000, -10
	}
	high := pod("high", 10, func(p *record.Pod) {
		p.MilliCPU, p.Priority, p.Ended, p.End = 3000, 10, seconds(52), record.Succeeded
	})
	full := pod("full", -4, func(p *record.Pod) { p.MilliCPU, p.Priority, p.Node = 3000, 100, "b" })
	c, homes := packs(t, source([]record.Pod{full, pod("agent", -5, daemon), high}, node("a"), node("b")))
	if c.Preempted != 1 || homes["agent"] != "a" || c.Unscheduled != 0 || c.Pods != 1 {
		t.Errorf("%v: %+v", homes, c)
	}
	// With room on another node, it waits all the same.
	high.Ended, high.End = 0, ""
	full.MilliCPU = 1500
	if _, homes = packs(t, source([]record.Pod{full, pod("agent", -5, daemon), high}, node("a"), node("b"))); homes["agent"] != "" ||
		homes["high"] != "a" {
		t.Errorf("%v", homes)
	}
	static := pod("static", -5, func(p *record.Pod) { p.Daemon, p.OwnerKind, p.OwnerName, p.MilliCPU = true, "Node", "a", 2000 })
	if c, homes := packs(t, source([]record.Pod{static, high}, node("a"))); homes["static"] != "a" || homes["high"] != "" || c.Preempted != 0 {
		t.Errorf("%v", homes)
	}
	if p := Pod(&static); p.Annotations[v1.MirrorPodAnnotationKey] != "" || len(p.Annotations) != 1 {
		t.Errorf("%v", p.Annotations)
	}
}

// A pod on which a plugin fails is left out, counted and named.
func TestRefused(t *testing.T) {
	out, homes := packs(t, source([]record.Pod{pod("good", 10), pod("bad", 12, func(p *record.Pod) {
		p.Spread = `[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}]`
	}), pod("better", 13)}, node("a")))
	if out.Refused != 1 || out.Pods != 2 || len(out.Waits) != 2 || homes["good"] != "a" || homes["better"] != "a" ||
		out.Unscheduled+out.NeverRan != 0 {
		t.Errorf("%v: %+v", homes, out)
	}
	if !slices.ContainsFunc(out.Notes, func(n string) bool { return strings.HasPrefix(n, "shop/bad is left out") }) {
		t.Errorf("%v", out.Notes)
	}
}

// Gaps of the recording do not count as waiting, and pods that arrived in them do not count at all.
func TestGaps(t *testing.T) {
	full := func(p *record.Pod) { p.MilliCPU, p.Preemption = 4000, "Never" }
	s := source([]record.Pod{
		pod("holds", -5, full, func(p *record.Pod) { p.Ended, p.End = seconds(60), record.Deleted }), pod("waits", 10, full),
		pod("unseen", 30, full),
	}, node("a"))
	s.gaps = []span{{seconds(20), seconds(50)}}
	out, homes := packs(t, s)
	if homes["waits"] != "a" || !slices.Equal(out.Waits, []float64{20}) || out.Pods != 1 || out.Whole().Pods != 1 || out.Whole().Waited != 20 {
		t.Errorf("%v: %+v", homes, out)
	}
}

// The pods of a course are those whose waits it has.
func TestPodsAreWaits(t *testing.T) {
	s := source([]record.Pod{
		pod("old", -5, func(p *record.Pod) { p.MilliCPU = 4000 }), pod("high", 20, func(p *record.Pod) { p.MilliCPU, p.Priority = 4000, 5 }),
	}, node("a"))
	if out, _ := packs(t, s); out.Pods != 2 || !slices.Equal(out.Waits, []float64{80, 0}) || out.Whole().Pods != 2 {
		t.Errorf("%+v", out)
	}
}

// The notes of the cluster at the end tell what could not be read.
func TestEndNotes(t *testing.T) {
	odd := pod("odd", 10, func(p *record.Pod) { p.Tolerations = "{" })
	cluster, notes, err := End(t.Context(), source([]record.Pod{odd}, node("a")), profile(t, "most-allocated"))
	if err != nil || cluster.Running["odd"] == nil || len(notes) != 1 || !strings.Contains(notes[0], "tolerations") {
		t.Errorf("%v, %v", notes, err)
	}
}

// A decision is made on the cluster just before the pod got its node: with the pods that were bound before, and without the later one.
func TestDecide(t *testing.T) {
	on := func(node string) func(*record.Pod) { return func(p *record.Pod) { p.Node = node } }
	never := func(p *record.Pod) { p.Bound, p.Node = 0, "" }
	s := source([]record.Pod{
		pod("old", -50, on("b")), pod("before", 10, on("b")), pod("web", 20, on("a")), pod("after", 20, on("b")),
		pod("daemon", 30, func(p *record.Pod) { p.Daemon, p.OwnerKind = true, "DaemonSet" }),
		pod("big", 40, never, func(p *record.Pod) { p.MilliCPU = 8000 }),
		pod("left", 50, never, func(p *record.Pod) { p.Ended, p.End = seconds(60), record.Deleted }),
	}, node("a"), node("b"))
	for _, c := range []struct {
		pod, node, really string
		at                int64
		fails             string
	}{
		{pod: "web", node: "b", really: "a", at: 22},
		{pod: "big", at: 100},
		{pod: "left", node: "b", at: 60},
		{pod: "old", fails: "nobody watched the cluster"},
		{pod: "daemon", fails: "belongs to its node"},
	} {
		d, notes, err := Decide(t.Context(), s, s.Newest("shop", c.pod), profile(t, "most-allocated"))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.pod, err)
			}
			continue
		}
		if err != nil || len(notes) > 0 {
			t.Fatalf("%s: %v %q", c.pod, err, notes)
		}
		if d.Pod.Name != c.pod || d.Node != c.node || d.Really != c.really || d.At.UnixMilli() != seconds(c.at) {
			t.Errorf("%s: %+v", c.pod, d)
		}
		if c.pod == "web" && (d.Default == nil || d.Default.Node != "a" || len(d.Best) != 2) {
			t.Errorf("it lacks scores or the default's choice: %+v", d)
		}
	}
	if row := s.Newest("other", "web"); row != -1 {
		t.Errorf("found row %d", row)
	}
}

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
