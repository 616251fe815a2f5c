package replay

import (
	"strings"
	"testing"

	"gnnsched/workload/record"
)

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
