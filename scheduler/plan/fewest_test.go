package plan

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// fewest searches with upstream's default profile on a record of 100 seconds.
func fewest(t *testing.T, s replay.Source, target Target) Fewest {
	t.Helper()
	s.From, s.To = t0, t0+100_000
	if target.Evaluations == 0 {
		target.Evaluations = 100
	}
	out, err := FindFewest(t.Context(), s, profiles(t, server.DefaultProfile), target, func(string, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// job makes a pod that arrives at a second and runs for ten.
func job(name string, cores, second int64) record.Pod {
	return pod(name, "a", cores, func(p *record.Pod) {
		p.Arrived = t0 + second*1000
		p.Bound, p.Ended, p.End = p.Arrived+1, p.Arrived+10_001, record.Succeeded
	})
}

// span is a time, in seconds since t0.
type span struct{ from, to int64 }

// recorded writes a source to a record and reads it again, with gaps in the recording. The record is of 100 seconds.
func recorded(t *testing.T, s replay.Source, gaps ...span) replay.Source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		w.Node(n)
	}
	for _, p := range s.Pods {
		w.Pod(p)
	}
	from := int64(0)
	for i, g := range append(gaps, span{100, 100}) {
		w.Run(record.Run{ID: fmt.Sprint(i), From: t0 + from*1000, To: t0 + g.from*1000})
		from = g.to
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = replay.Read(r, replay.Window{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// In a gap of the recording, arriving jobs may wait for any time, and so may the others.
func TestBoundLeavesOutGaps(t *testing.T) {
	two := []record.Node{node("a"), node("b")}
	for _, c := range []struct {
		name  string
		pods  []record.Pod
		gap   span
		bound int
	}{
		{"no gap", []record.Pod{job("j-1", 4, 10), job("j-2", 4, 10)}, span{90, 91}, 2},
		{"both arrive in the gap", []record.Pod{job("j-1", 4, 10), job("j-2", 4, 10)}, span{5, 60}, 0},
		{"one arrives in the gap", []record.Pod{job("j-1", 4, 5), job("j-2", 4, 10)}, span{8, 60}, 1},
		{"both wait in the gap and after it", []record.Pod{job("j-1", 4, 10), job("j-2", 4, 10)}, span{12, 15}, 2},
		{"both are there at the end", []record.Pod{pod("web-1", "a", 4), pod("web-2", "b", 4)}, span{5, 60}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := recorded(t, replay.Source{Nodes: two, Pods: c.pods}, c.gap)
			if p := fewest(t, s, Target{Share: 1}).Profiles[0]; p.Bound != c.bound || len(p.Keep) != max(c.bound, 1) {
				t.Errorf("%+v, want at least %d", p, c.bound)
			}
		})
	}
}

// Records of nodes with four cores, whose fewest nodes can be computed by hand.
func TestFewest(t *testing.T) {
	three := []record.Node{node("a"), node("b"), node("c")}
	main, small := node("main"), node("small")
	main.Labels, main.Taints = `{"node-role.kubernetes.io/control-plane":""}`, `[{"key":"c","effect":"NoSchedule"}]`
	small.MilliCPU, small.Labels = 2000, `{"disk":"ssd"}`
	jobs := []record.Pod{job("j-1", 4, 10), job("j-2", 4, 10), job("j-3", 4, 10)}
	for _, c := range []struct {
		name         string
		pods         []record.Pod
		nodes        []record.Node
		target       Target
		keep         int
		bound        int
		holds        bool
		notes, among string
	}{
		{"four cores", []record.Pod{pod("web-1", "a", 2), pod("web-2", "b", 1), pod("web-3", "c", 1)}, three, Target{Share: 1}, 1, 1, true, "",
			""},
		{"three do not share a node", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 3), pod("web-3", "c", 3)}, three, Target{Share: 1},
			3, 3, true, "", ""},
		{"the bound is not reached", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 3)}, three[:2], Target{Share: 1}, 2, 2, true, "", ""},
		{"two of three cores", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 3), pod("web-3", "c", 2)}, three, Target{Share: 1}, 3, 2,
			true, "", ""},
		{"jobs at once", jobs, three, Target{Share: 1}, 3, 3, true, "", ""},
		{"jobs may wait for one", jobs, three, Target{Share: 1, Wait: 10 * time.Second}, 2, 0, true, "", ""},
		{"jobs may wait for two", jobs, three, Target{Share: 1, Wait: 20 * time.Second}, 1, 0, true, "", ""},
		{"one of three jobs may wait longer", jobs, three, Target{Share: 0.5}, 2, 2, true, "", ""},
		{"a selector keeps the small node", []record.Pod{pod("db-1", "small", 1, func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` }),
			pod("web-1", "a", 4)}, append(three[:3:3], small), Target{Share: 1}, 2, 2, true, "", "small"},
		{"the control plane stays", []record.Pod{pod("web-1", "a", 1)}, append(three[:3:3], main), Target{Share: 1}, 1, 0, true, "", ""},
		{"one waits in any case", []record.Pod{pod("big-1", "", 8, waiting), pod("web-1", "a", 1), pod("web-2", "b", 1)}, three,
			Target{Share: 0.5}, 1, 1, true, "", ""},
		{"the target is missed by all", []record.Pod{pod("big-1", "", 8, waiting)}, three, Target{Share: 1, Wait: time.Second}, 3, 0, false, "",
			""},
		{"daemons go with their node", []record.Pod{pod("log-1", "a", 3, func(p *record.Pod) { p.Daemon = true }),
			pod("log-2", "b", 3, func(p *record.Pod) { p.Daemon = true }), pod("web-1", "a", 1)}, three[:2], Target{Share: 1}, 1, 1, true, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fewest(t, replay.Source{Pods: c.pods, Nodes: c.nodes}, c.target)
			p := f.Profiles[0]
			if p.Holds != c.holds || len(p.Keep) != c.keep || p.Bound != c.bound || p.Cut != "" {
				t.Errorf("%+v", p)
			}
			if c.among != "" && !strings.Contains(strings.Join(p.Keep, " "), c.among) {
				t.Errorf("%v lack %s", p.Keep, c.among)
			}
			if p.Holds && (p.With.Wait > c.target.Wait.Seconds() || p.With.Unplaced > p.All.Unplaced) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// No subset of the nodes with fewer nodes than the bound holds the work, for any times of the pods and the gaps.
func TestBoundAgainstAllSubsets(t *testing.T) {
	reached := 0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := replay.Source{From: t0, To: t0 + 100_000}
		for i := range 4 {
			n := node(string(rune('a' + i)))
			n.MilliCPU = 2000 * (1 + r.Int64N(3))
			s.Nodes = append(s.Nodes, n)
		}
		for i := range 9 {
			p := job(fmt.Sprintf("j-%d", i), 1+r.Int64N(2), r.Int64N(40))
			p.Ended += r.Int64N(40_000)
			if r.IntN(3) == 0 {
				p.Ended, p.End = 0, ""
			}
			s.Pods = append(s.Pods, p)
		}
		if seed >= 12 {
			var gaps []span
			for at := 1 + r.Int64N(15); at < 60; at += 5 + r.Int64N(20) {
				g := span{at, at + 1 + r.Int64N(15)}
				gaps, at = append(gaps, g), g.to
			}
			s = recorded(t, s, gaps...)
		}
		target := Target{Wait: time.Duration(r.IntN(3)*5) * time.Second, Share: []float64{1, 0.8}[r.IntN(2)], Evaluations: 100}
		p := fewest(t, s, target).Profiles[0]
		if !p.Holds {
			continue
		}
		least := len(s.Nodes)
		for set := range 1 << len(s.Nodes) {
			kept := map[string]bool{}
			for i, n := range s.Nodes {
				if set>>i&1 == 1 {
					kept[n.Name] = true
				}
			}
			o, err := judge(t.Context(), on(s, func(name string) bool { return kept[name] }), profiles(t, server.DefaultProfile)[0], target)
			if err != nil {
				t.Fatal(err)
			}
			if o.holds(target, p.All) {
				least = min(least, len(kept))
			}
		}
		if least < p.Bound || len(p.Keep) < least {
			t.Errorf("seed %d: %d nodes hold the work, the bound is %d, found are %d", seed, least, p.Bound, len(p.Keep))
		}
		if least == p.Bound {
			reached++
		}
	}
	if reached == 0 {
		t.Error("the bound is never reached")
	}
}

// A search that is limited or interrupted returns its findings so far.
func TestFewestEndsEarly(t *testing.T) {
	s := replay.Source{From: t0, To: t0 + 100_000}
	for i := range 8 {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("n-%d", i)))
		s.Pods = append(s.Pods, pod(fmt.Sprintf("web-%d", i), fmt.Sprintf("n-%d", i), 2))
	}
	s.Pods = append(s.Pods, pod("x-1", "n-0", 2), pod("x-2", "n-1", 1)) // 19 cores: five nodes
	f := fewest(t, s, Target{Share: 1, Evaluations: 1})
	if p := f.Profiles[0]; p.Cut != cutLimit || len(p.Keep) != 8 {
		t.Errorf("%+v", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := FindFewest(ctx, s, profiles(t, server.DefaultProfile, "most-allocated"), Target{Share: 1, Evaluations: 100},
		func(_ string, n int) {
			if n == 1 {
				cancel()
			}
		})
	if err != nil || len(f.Profiles) != 1 || f.Profiles[0].Cut != cutInterrupt || len(f.Profiles[0].Keep) > 8 {
		t.Fatalf("%v: %+v", err, f)
	}
	f.Notes = nil
	var b bytes.Buffer
	if err := f.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "fewest.txt", b.String())
}
