package plan

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/record"
)

// packed is the end of an episode of the scenario pack on so many nodes, placed by kube-scheduler. The control plane takes no pods.
func packed(t testing.TB, nodes int, seed uint64) (s replay.Source) {
	t.Helper()
	scenario := fatal.Value(eval.Find("pack"))(t)
	scenario.Nodes = sim.Exactly(nodes)
	stock := fatal.Value(contender.Named("kube-scheduler"))(t)
	env := fatal.Value(sim.New(scenario.Config))(t)
	fatal.Value(eval.Play(env, seed, stock.New(policy.Setting{Seed: seed}), nil))(t)
	for i, n := range env.Nodes() {
		r := node(fmt.Sprintf("n%d", i))
		r.MilliCPU, r.Memory = n.Allocatable.MilliCPU, n.Allocatable.Memory
		if !n.Available() {
			r.Labels = `{"node-role.kubernetes.io/control-plane":""}`
			r.Unschedulable = true
		}
		s.Nodes = append(s.Nodes, r)
	}
	for at, p := range env.Running {
		r := pod(fmt.Sprintf("web-%d", at.Pod), s.Nodes[at.Row].Name, 0)
		r.OwnerName, r.MilliCPU, r.Memory = p.Owner, p.Requests.MilliCPU, p.Requests.Memory
		s.Pods = append(s.Pods, r)
	}
	return s
}

// Where affinity, host ports and taints decide too, every search makes moves that upstream's
// filters accept, and the local one is not behind.
func TestConstraints(t *testing.T) {
	const apart = `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname",` +
		`"labelSelector":{"matchLabels":{"app":"db"}}}]}}`
	total := map[string]int{}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := replay.Source{Objects: []record.Object{budgetOf("db", `"maxUnavailable":1`)}}
		for i := range 8 {
			n := node(fmt.Sprintf("n%d", i))
			n.MilliCPU = 8000
			if i == 7 {
				n.Taints = `[{"key":"only","value":"web","effect":"NoSchedule"}]`
			}
			s.Nodes = append(s.Nodes, n)
			for k, app := range []string{"db", "ports", "web", "web"} {
				if r.IntN(3) > 0 {
					s.Pods = append(s.Pods, pod(fmt.Sprintf("%s-%d-%d", app, i, k), n.Name, 1+r.Int64N(2), func(p *record.Pod) {
						switch app {
						case "db":
							p.Affinity = apart
						case "ports":
							p.HostPorts = `["TCP/0.0.0.0/80"]`
						}
					}))
				}
			}
		}
		for _, search := range moves.Searchers {
			searching.By = search.By
			m := find(t, s, Limits{Chains: seed%2 == 1})
			if total[search.Name] += len(m.Freed); len(m.Freed) > m.Bound {
				t.Errorf("seed %d: %s empties %d nodes of at most %d", seed, search.Name, len(m.Freed), m.Bound)
			}
		}
	}
	searching.By = moves.Local{}
	s := replay.Source{Nodes: []record.Node{node("a"), node("b")}, Pods: []record.Pod{pod("web-1", "a", 1), pod("web-2", "b", 1)}}
	for _, lower := range []*moves.Objective{nil, {Mix: objective.Mix{{Term: objective.Pack{}, Weight: 1}}}} {
		m, err := Find(t.Context(), at(t, s), Limits{}, Search{By: moves.Local{}, Objective: lower, Time: 1, Progress: func(float64) {}})
		if err != nil || len(m.Moves) > 0 || !strings.Contains(text(t, m), "ended after 1ns") {
			t.Errorf("after no time: %+v, %v", m, err)
		}
	}
	if t.Log(total); total["local"] < total["greedy"] || total["greedy"] == 0 {
		t.Error(total)
	}
}

// BenchmarkSearch compares the searches on the scenario pack: means of ten seeds of the nodes that become empty, the moves, and the
// seconds. docs/results.sh defrag writes them into docs/results/data.
func BenchmarkSearch(b *testing.B) {
	for _, nodes := range []int{1, 5, 20, 100, 500} {
		for _, search := range moves.Searchers {
			b.Run(fmt.Sprintf("%d/%s", nodes, search.Name), func(b *testing.B) {
				const seeds = 10
				var emptied, moved, bound int
				var took time.Duration
				for b.Loop() {
					emptied, moved, bound, took = 0, 0, 0, 0
					for seed := range uint64(seeds) {
						s := at(b, packed(b, nodes, seed))
						began := time.Now()
						m := fatal.Value(Find(b.Context(), s, Limits{}, Search{By: search.By, Progress: func(float64) {}}))(b)
						took += time.Since(began)
						emptied, moved, bound = emptied+len(m.Freed), moved+len(m.Moves), bound+m.Bound
					}
				}
				b.ReportMetric(float64(emptied)/seeds, "emptied")
				b.ReportMetric(float64(moved)/seeds, "moves")
				b.ReportMetric(float64(bound)/seeds, "bound")
				b.ReportMetric(took.Seconds()/seeds, "seconds")
			})
		}
	}
}

// sharing gives a pod a share of a GPU.
func sharing(milli int64, index string) func(*record.Pod) {
	return func(p *record.Pod) { p.GPUMilli, p.GPUIndex = milli, index }
}

// A share goes to a GPU that has room for it, which is planned and checked again before the move.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		name, gpus string // "" if the pod of node a stays
		pods       []record.Pod
	}{
		{"one GPU has room", "1", []record.Pod{pod("x-1", "a", 1, sharing(600, "0")), pod("y-1", "b", 1, bare, sharing(600, "0")),
			pod("y-2", "b", 1, bare, sharing(300, "1"))}},
		{"no GPU has room, but both together", "", []record.Pod{pod("x-1", "a", 1, sharing(600, "0")),
			pod("y-1", "b", 1, bare, sharing(600, "0")), pod("y-2", "b", 1, bare, sharing(500, "1"))}},
		{"the share's GPU is not known", "", []record.Pod{pod("x-1", "a", 1, sharing(600, "")), pod("y-1", "b", 1, bare)}},
		{"whole GPUs", "0-1", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.GPU = 2 }), pod("y-1", "b", 1, bare)}},
		{"a GPU in use is not whole", "", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.GPU = 2 }),
			pod("y-1", "b", 1, bare, sharing(10, "1"))}},
	} {
		s := replay.Source{Nodes: []record.Node{node("a"), node("b")}, Pods: c.pods}
		for i := range s.Nodes {
			s.Nodes[i].GPU, s.Nodes[i].GPUModel = 2, "T4"
		}
		m := find(t, s, Limits{})
		if c.gpus == "" {
			if len(m.Moves) > 0 {
				t.Errorf("%s: %+v", c.name, m.Moves)
			}
			continue
		}
		if len(m.Moves) != 1 || m.Moves[0].GPUs != c.gpus || m.Moves[0].To != "b" {
			t.Errorf("%s: %+v", c.name, m)
			continue
		}
		for _, again := range []struct{ index, want string }{{"", ""}, {"1", "other pods use its GPUs"}} {
			if again.index != "" { // the GPU was taken, and others have room
				s.Nodes[1].GPU += 4
				s.Pods = append(s.Pods, pod("z-1", "b", 1, sharing(999, again.index)))
			}
			whys, err := at(t, s).Recheck(t.Context(), Limits{}, m.Moves)
			if err != nil || !strings.Contains(whys[0], again.want) || (whys[0] == "") != (again.want == "") {
				t.Errorf("%s: checked again: %q, %v", c.name, whys, err)
			}
		}
	}
}

// Pods with ResourceClaims are counted and named.
func TestClaimsAreNamed(t *testing.T) {
	s := replay.Source{Nodes: []record.Node{node("a"), node("b")},
		Pods: []record.Pod{pod("x-1", "a", 1, holding("resourceClaim")), pod("x-2", "b", 4)}}
	if m := find(t, s, Limits{}); !slices.Contains(m.Notes, "1 pods with ResourceClaims stay: shop/x-1") {
		t.Errorf("%q", m.Notes)
	}
}

// Moves lower the objective by what they say, and break no budget and no filter.
func TestObjectives(t *testing.T) {
	for _, name := range []string{"balance", "energy", "pack,balance=0.5", "gpu-fragmentation"} {
		lower := fatal.Value(moves.ParseObjective(name))(t)
		made := 0
		for seed := range uint64(8) {
			s := scattered(seed)
			m, err := Find(t.Context(), at(t, s), Limits{Pods: 6}, Search{By: moves.Local{}, Objective: &lower, Progress: func(float64) {}})
			fatal.If(t, err)
			check(t, s, m)
			gain := 0.0
			for _, x := range m.Moves {
				gain += x.Gain
				if x.To == "d" && strings.HasPrefix(x.Pod, "shop/api") {
					t.Errorf("%s, seed %d: %+v: the node's taint is not tolerated", name, seed, x)
				}
			}
			made += len(m.Moves)
			if l := m.Lower; l.Objective != name || len(m.Moves) > 6 || math.Abs(l.Before-l.After-gain) > 1e-6 || len(m.Moves) > 0 &&
				l.After >= l.Before {
				t.Errorf("%s, seed %d: %+v of %v, %+v", name, seed, l, gain, m.Moves)
			}
		}
		if made < 8 {
			t.Errorf("%s: %d moves in all", name, made)
		}
	}
}

// scattered is a cluster with pods on random nodes, of which d has a taint that only some tolerate.
func scattered(seed uint64) replay.Source {
	r := rand.New(rand.NewPCG(seed, 2))
	s := replay.Source{Objects: []record.Object{budgetOf("web", `"maxUnavailable":2`)}}
	for _, name := range []string{"a", "b", "c", "d"} {
		n := node(name)
		if n.GPU, n.GPUModel = 2, "T4"; name == "d" {
			n.Taints = `[{"key":"k","effect":"NoSchedule"}]`
		}
		s.Nodes = append(s.Nodes, n)
		for i := range r.IntN(3) + 1 {
			app, share := []string{"web", "api", "db"}[r.IntN(3)], []int64{300, 500, 700}[r.IntN(3)]
			if app == "api" && name == "d" {
				app = "db"
			}
			s.Pods = append(s.Pods, pod(fmt.Sprintf("%s-%s%d", app, name, i), name, 1, sharing(share, fmt.Sprint(i%2)), func(p *record.Pod) {
				if app != "api" {
					p.Tolerations = `[{"key":"k","operator":"Exists"}]`
				}
				if i == 2 {
					p.GPUMilli, p.GPUIndex = 0, ""
				}
			}))
		}
	}
	return s
}

// profiles decodes profiles by name.
func profiles(t testing.TB, names ...string) (out []Profile) {
	t.Helper()
	var list []server.Profile
	for _, name := range names {
		p := fatal.Value(server.ProfileNamed(name))(t)
		list = append(list, p)
	}
	c := fatal.Value(server.Config{Profiles: list, QPS: 1}.Decode())(t)
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
	out := fatal.Value(Without(t.Context(), s, func(n *record.Node) bool { return slices.Contains(names, n.Name) },
		profiles(t, server.DefaultProfile, "most-allocated"), func(float64) {}))(t)
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

func podsOf(list []Unplaced) []string {
	return each.Map(list, func(u Unplaced) string { return u.Pod })
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
	fatal.Golden(t, "without.txt", b.String())
}
