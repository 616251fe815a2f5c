package shadow

import (
	"testing"
	"time"

	"gnnsched/internal/runfolder"
)

// The run folder gets frames of the real cluster and of the one with the profile's choices, and what was compared.
func TestFilm(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	var frames []runfolder.Frame
	var decisions []runfolder.Decision
	b.config.Keep = func(rows ...runfolder.Row) {
		for _, r := range rows {
			switch r := r.(type) {
			case runfolder.Frame:
				frames = append(frames, r)
			case runfolder.Decision:
				decisions = append(decisions, r)
			}
		}
	}
	b.frame(b.clock.Now(), false)
	b.binds(pod("1").Obj(), "a")
	home := b.ours.Running["1"].Spec.NodeName
	other := map[string]string{"a": "b", "b": "a"}[home]
	b.binds(pod("2").Obj(), other)
	b.frame(b.clock.Now(), false) // it is too early for another one
	b.clock.Step(time.Second)
	b.frame(b.clock.Now(), false)
	b.clock.Step(time.Millisecond)
	b.frame(b.clock.Now(), true)
	if len(frames) != 6 || frames[2].At != 1 || frames[5].At != 1.001 || frames[0].Contender != "default-scheduler" ||
		frames[1].Contender != "most-allocated (in the shadow)" || len(frames[0].Nodes) != 2 {
		t.Fatalf("%+v", frames)
	}
	used := func(f runfolder.Frame, node string) float64 {
		for _, n := range f.Nodes {
			if n.Name == node {
				return n.CPU
			}
		}
		return -1
	}
	if got := used(frames[3], home); got != 0.5 || used(frames[3], other) != 0 || used(frames[2], "a")+used(frames[2], "b") != 0.5 {
		t.Errorf("really %+v, with the profile %+v", frames[2], frames[3])
	}
	if d := decisions; len(d) != 2 || d[1].Pod != "default/2" || d[1].Node == d[1].RunnerUp || d[1].Feasible != 2 ||
		d[1].Class != "2 CPU, 4 GiB" || d[1].Note == "" {
		t.Errorf("%+v", d)
	}
}

// Frames of large clusters come less often, so that a day's frames fit into their file.
func TestFramesOfADay(t *testing.T) {
	for _, nodes := range []int{10, 1000, 10_000} {
		at, n := time.Duration(0), 0
		for ; at < 24*time.Hour; n++ {
			at += runfolder.Pause(at, nodes)
		}
		if bytes := n * nodes * 80; n < 40 || bytes > 48<<20 {
			t.Errorf("%d frames of %d nodes: %d bytes", n, nodes, bytes)
		}
	}
}
