package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// profiles decodes profiles by name.
func profiles(t testing.TB, names ...string) (out []Profile) {
	t.Helper()
	var list []server.Profile
	for _, name := range names {
		p, err := server.ProfileNamed(name)
		fatal.If(t, err)
		list = append(list, p)
	}
	c, err := server.Config{Profiles: list, QPS: 1}.Decode()
	fatal.If(t, err)
	for i, p := range c.Profiles {
		out = append(out, Profile{names[i], p})
	}
	return out
}

func without(t *testing.T, s replay.Source, names ...string) Losses {
	t.Helper()
	if s.To == 0 {
		s.From, s.To = t0, t0+1000
	}
	out, err := Without(t.Context(), s, func(n *record.Node) bool { return slices.Contains(names, n.Name) },
		profiles(t, server.DefaultProfile, "most-allocated"), func(float64) {})
	fatal.If(t, err)
	return out
}

// Three nodes of four cores. The rest after a loss can be computed by hand.
func TestWithout(t *testing.T) {
	three := []record.Node{node("a"), node("b"), node("c")}
	for _, c := range []struct {
		name          string
		pods          []record.Pod
		gone          []string
		before, after []string // pods
		why           string
	}{
		{"there is room", []record.Pod{pod("web-1", "a", 2), pod("web-2", "b", 2), pod("web-3", "c", 2)}, []string{"a"}, nil, nil, ""},
		{"there is room for one of two", []record.Pod{pod("web-1", "a", 2), pod("web-2", "b", 2), pod("web-3", "c", 4), pod("web-4", "a", 2)},
			[]string{"a"}, nil, []string{"shop/web-4"},
			"0 of 2 nodes take it: 2 Insufficient cpu"},
		{"two nodes go", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 3), pod("web-3", "c", 3)}, []string{"a", "b"}, nil,
			[]string{"shop/web-1", "shop/web-2"}, "0 of 1 nodes take it: 1 Insufficient cpu"},
		{"one waits before", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 3), pod("web-3", "c", 3), pod("big-1", "", 4, waiting)},
			[]string{"c"}, []string{"shop/big-1"}, []string{"shop/big-1", "shop/web-3"}, "Insufficient cpu"},
		{"it names a node", []record.Pod{pod("web-1", "a", 1, func(p *record.Pod) { p.NodeSelector = `{"kubernetes.io/hostname":"a"}` })},
			[]string{"a"}, nil, []string{"shop/web-1"},
			"0 of 2 nodes take it: 2 node(s) didn't match Pod's node affinity/selector"},
		{"daemons and bare pods go with it", []record.Pod{pod("log-1", "a", 1, func(p *record.Pod) { p.Daemon = true }),
			pod("x-1", "a", 1, bare)}, []string{"a"}, nil, nil, ""},
		{"important pods come first", []record.Pod{pod("web-1", "a", 3), pod("db-1", "a", 1, func(p *record.Pod) { p.Priority = 10 }),
			pod("web-2", "b", 3), pod("web-3", "c", 4, func(p *record.Pod) { p.Priority = 10 })},
			[]string{"a"}, nil, []string{"shop/web-1"}, "2 Insufficient cpu"},
		{"important pods take others' place", []record.Pod{pod("db-1", "a", 4, func(p *record.Pod) { p.Priority = 10 }), pod("web-2", "b", 3),
			pod("web-3", "c", 4, func(p *record.Pod) { p.Priority = 10 })},
			[]string{"a"}, nil, []string{"shop/web-2"}, "2 Insufficient cpu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := without(t, replay.Source{Pods: c.pods, Nodes: three}, c.gone...)
			if len(l.Times) != 1 || len(l.Times[0].Profiles) != 2 || fmt.Sprint(l.Times[0].Lost.Lost) != fmt.Sprint(c.gone) ||
				l.Times[0].Nodes != 3 {
				t.Fatalf("%+v", l)
			}
			for _, p := range l.Times[0].Profiles {
				if !slices.Equal(podsOf(p.Before), c.before) || !slices.Equal(podsOf(p.After), c.after) {
					t.Errorf("%s: %+v", p.Profile, p)
				}
				for _, u := range p.After {
					if !strings.Contains(u.Why, c.why) {
						t.Errorf("%+v, want %q", u, c.why)
					}
				}
			}
		})
	}
}

func waiting(p *record.Pod) { p.Bound, p.Node = 0, "" }

func podsOf(list []Unplaced) (out []string) {
	for _, u := range list {
		out = append(out, u.Pod)
	}
	return out
}

// At the busiest time more pods are there than at the end. The output names the losses and what cannot be judged.
func TestWithoutText(t *testing.T) {
	named := func(p *record.Pod) { p.Workload = "Deployment/web" }
	s := replay.Source{From: t0, To: t0 + 100_000, Nodes: []record.Node{node("a"), node("b")}, Pods: []record.Pod{
		pod("x-1", "a", 0, bare), pod("db-1", "a", 1, holding("emptyDir")), pod("data-1", "a", 0, func(p *record.Pod) { p.Claims = `["d"]` }),
		pod("old-1", "a", 0, func(p *record.Pod) { p.Holds = "" }),
	}}
	for i := range 3 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("web-%d", i), "ab"[i%2:i%2+1], 2, named, func(p *record.Pod) {
			p.Arrived, p.Bound, p.Ended, p.End = t0+20_000, t0+20_001, t0+60_000, record.Deleted
		}))
	}
	s.Pods = append(s.Pods, pod("web-9", "", 2, named, waiting, func(p *record.Pod) { p.Arrived, p.Ended = t0+30_000, t0+40_000 }))
	if busy := busiest(s); busy != t0+39_999 {
		t.Fatalf("the busiest time is %d", busy-t0)
	}
	l := without(t, s, "a")
	for _, at := range l.Times {
		if at.Displaced == 0 || len(at.Bare) != 1 || at.EmptyDirs != 1 || at.Unjudged != 1 || at.Unknown != 1 {
			t.Errorf("%+v", at)
		}
	}
	var b bytes.Buffer
	fatal.If(t, l.WriteText(&b))
	golden.Check(t, "without.txt", b.String())
}
