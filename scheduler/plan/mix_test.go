package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// typeOf makes a type of nodes with the given cores, in no zone.
func typeOf(name string, cores int64, price float64, limit int, change ...func(*record.Node)) Type {
	n := node("any")
	n.MilliCPU = 1000 * cores
	for _, c := range change {
		c(&n)
	}
	return Type{Name: name, Price: price, Limit: limit, Nodes: []record.Node{n}}
}

// mixes searches with upstream's default profile on a record of 100 seconds.
func mixes(t *testing.T, s replay.Source, types Types, target Target) (Mixes, error) {
	t.Helper()
	s.From, s.To = t0, t0+100_000
	if target.Evaluations == 0 {
		target.Evaluations = 100
	}
	return types.FindMixes(t.Context(), s, profiles(t, server.DefaultProfile), target, func(string, int) {})
}

func mix(t *testing.T, s replay.Source, types Types, target Target) MixOf {
	t.Helper()
	m, err := mixes(t, s, types, target)
	if err != nil {
		t.Fatal(err)
	}
	return m.Profiles[0]
}

// agents are a DaemonSet's pods on two nodes.
func agents(cores int64) []record.Pod {
	of := func(p *record.Pod) { p.Daemon, p.OwnerKind, p.Priority = true, "DaemonSet", 100 }
	return []record.Pod{pod("agent-1", "a", cores, of), pod("agent-2", "b", cores, of)}
}

// everywhere returns pods that tolerate all taints.
func everywhere(pods []record.Pod) []record.Pod {
	for i := range pods {
		pods[i].Tolerations = `[{"operator":"Exists"}]`
	}
	return pods
}

// Records whose cheapest mix can be computed by hand. The recorded nodes have four cores.
func TestMix(t *testing.T) {
	three := []record.Node{node("a"), node("b"), node("c")}
	small, big := typeOf("small", 2, 1, 9), typeOf("big", 8, 3, 9)
	ssd := typeOf("ssd", 2, 5, 9, func(n *record.Node) { n.Labels = `{"disk":"ssd"}` })
	tainted := typeOf("cheap", 8, 0.1, 9, func(n *record.Node) { n.Taints = `[{"key":"spot","effect":"NoSchedule"}]` })
	gpu := typeOf("gpu", 8, 10, 9, func(n *record.Node) { n.GPU = 4 })
	zoned := Type{Name: "zoned", Price: 1, Limit: 9, Nodes: []record.Node{node("x"), node("y")}}
	zoned.Nodes[0].Labels, zoned.Nodes[1].Labels = `{"topology.kubernetes.io/zone":"a"}`, `{"topology.kubernetes.io/zone":"b"}`
	main := node("main")
	main.Labels, main.Taints = `{"node-role.kubernetes.io/control-plane":""}`, `[{"key":"c","effect":"NoSchedule"}]`
	web := func(n int, cores int64, change ...func(*record.Pod)) (out []record.Pod) {
		for i := range n {
			out = append(out, pod(fmt.Sprintf("web-%d", i), string(rune('a'+i%3)), cores, change...))
		}
		return out
	}
	near := func(p *record.Pod) {
		apart(p)
		p.Affinity = strings.Replace(p.Affinity, "podAntiAffinity", "podAffinity", 1)
	}
	jobs := []record.Pod{job("j-1", 2, 10), job("j-2", 2, 10), job("j-3", 2, 10)}
	for _, c := range []struct {
		name   string
		pods   []record.Pod
		nodes  []record.Node
		types  Types
		target Target
		mix    map[string]int
		bound  float64
		by     string
	}{
		{"the big type is cheaper a core", web(4, 2), three, Types{small, big}, Target{Share: 1}, map[string]int{"big": 1}, 3, "CPU"},
		{"both types", web(5, 2), three, Types{small, big}, Target{Share: 1}, map[string]int{"big": 1, "small": 1}, 4, "CPU"},
		{"few of the cheap ones", web(4, 2), three, Types{typeOf("small", 2, 1, 9), typeOf("big", 8, 3, 0)}, Target{Share: 1},
			map[string]int{"small": 4}, 4, "CPU"},
		{"a pod that fits the big type only", web(1, 3), three, Types{small, big}, Target{Share: 1}, map[string]int{"big": 1}, 3, ""},
		{"a selector", append(web(1, 2, func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` }), pod("db-1", "a", 2)),
			with(three, func(n *record.Node) { n.Labels = `{"disk":"ssd"}` }), Types{small, big, ssd}, Target{Share: 1},
			map[string]int{"small": 1, "ssd": 1}, 6, ""},
		{"a taint", web(4, 2), three, Types{small, big, tainted}, Target{Share: 1}, map[string]int{"big": 1}, 3,
			"CPU of pods that fit small, big only"},
		{"a toleration", web(4, 2, func(p *record.Pod) { p.Tolerations = `[{"key":"spot","operator":"Exists"}]` }), three,
			Types{small, big, tainted}, Target{Share: 1}, map[string]int{"cheap": 1}, 0.1, "CPU"},
		{"GPUs", append(web(4, 2), pod("train-1", "", 1, func(p *record.Pod) { p.GPU = 3 }),
			pod("train-2", "", 1, func(p *record.Pod) { p.GPU = 3 })), with(three, func(n *record.Node) { n.GPU = 4 }), Types{small, big, gpu},
			Target{Share: 1}, map[string]int{"gpu": 2}, 20, "GPUs"},
		{"one on each node", web(3, 1, apart), three, Types{small, big}, Target{Share: 1}, map[string]int{"small": 3}, 2, "CPU"},
		{"all on one node", web(3, 1, near), three, Types{small, big}, Target{Share: 1}, map[string]int{"big": 1}, 2, "CPU"},
		{"zones", web(2, 1, func(p *record.Pod) { p.NodeSelector = `{"topology.kubernetes.io/zone":"b"}` }),
			with(three, func(n *record.Node) { n.Labels = `{"topology.kubernetes.io/zone":"b"}` }), Types{zoned}, Target{Share: 1},
			map[string]int{"zoned": 2}, 1, "CPU"},
		{"jobs at once", jobs, three, Types{small, typeOf("big", 8, 2.5, 9)}, Target{Share: 1}, map[string]int{"big": 1}, 2.5, "CPU"},
		{"jobs may wait for one", jobs, three, Types{small, big}, Target{Share: 1, Wait: 10 * time.Second}, map[string]int{"small": 2}, 0, ""},
		{"jobs may wait for two", jobs, three, Types{small, big}, Target{Share: 1, Wait: 20 * time.Second}, map[string]int{"small": 1}, 0, ""},
		{"DaemonSets take room", append(web(1, 2), agents(1)...), three, Types{small, big}, Target{Share: 1}, map[string]int{"big": 1}, 3, ""},
		{"DaemonSets run on the control plane too", append(web(1, 2), everywhere(agents(1))...), append(three[:3:3], main), Types{small, big},
			Target{Share: 1}, map[string]int{"big": 1}, 3, ""},
		{"the control plane stays", web(4, 2), append(three[:3:3], main), Types{small, big}, Target{Share: 1}, map[string]int{"big": 1}, 3,
			"CPU"},
		{"nothing costs nothing", web(4, 2), three, Types{typeOf("free", 8, 0, 5)}, Target{Share: 1}, map[string]int{"free": 1}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mix(t, replay.Source{Pods: c.pods, Nodes: c.nodes}, c.types, c.target)
			if !p.Found || !reflect.DeepEqual(p.Mix, c.mix) || math.Abs(p.Bound-c.bound) > 1e-6 || c.by != "" && p.By != c.by || p.Cut != "" {
				t.Errorf("%+v, want %v for at least %v by %s", p, c.mix, c.bound, c.by)
			}
		})
	}
}

// apart lets no two pods of the app web share a node.
func apart(p *record.Pod) {
	p.Affinity = `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"kubernetes.io/hostname"}]}}`
}

// with returns changed nodes.
func with(nodes []record.Node, change func(*record.Node)) (out []record.Node) {
	for _, n := range nodes {
		change(&n)
		out = append(out, n)
	}
	return out
}

// No mix that costs less than the bound holds the work, and the search comes close to the cheapest that does.
func TestMixAgainstAll(t *testing.T) {
	const limit = 3
	cheapest, worst := 0, 0.0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 5))
		var types Types
		for i, cores := range []int64{2, 3, 6} {
			types = append(types, typeOf(fmt.Sprintf("t%d", i), cores, float64(cores)*(0.8+0.4*r.Float64()), limit, func(n *record.Node) {
				n.Memory = (4 + r.Int64N(8)) << 30
				if i == 1 {
					n.Labels = `{"disk":"ssd"}`
				}
			}))
		}
		nodes := []record.Node{node("a"), node("b"), node("c"), node("d")}
		for i := range nodes {
			nodes[i].Labels = `{"disk":"ssd"}`
		}
		s := replay.Source{From: t0, To: t0 + 100_000, Nodes: nodes}
		for i := range 9 {
			p := job(fmt.Sprintf("j-%d", i), 1+r.Int64N(2), r.Int64N(40))
			p.Memory = (1 + r.Int64N(3)) << 30
			p.Ended += r.Int64N(40_000)
			if r.IntN(3) == 0 {
				p.Ended, p.End = 0, ""
			}
			if r.IntN(4) == 0 {
				p.NodeSelector = `{"disk":"ssd"}`
			}
			s.Pods = append(s.Pods, p)
		}
		s.Pods = append(s.Pods, agents(0)...)
		if seed%3 == 0 {
			s = recorded(t, s, span{10 + r.Int64N(10), 25 + r.Int64N(20)})
		}
		target := Target{Wait: time.Duration(r.IntN(3)*5) * time.Second, Share: []float64{1, 0.8}[r.IntN(2)], Evaluations: 100}
		p := mix(t, s, types, target)
		least := cheapestOf(t, s, types, target, p)
		if p.Found != !math.IsInf(least, 1) || p.Found && (p.Bound > least+1e-6 || p.Price < least-1e-6) {
			t.Errorf("seed %d: %+v, the cheapest mix costs %v", seed, p, least)
		}
		if p.Found {
			if worst = max(worst, p.Price/least-1); p.Price < least+1e-6 {
				cheapest++
			}
		}
	}
	t.Logf("the cheapest mix was found %d times; the worst costs %.0f %% more", cheapest, 100*worst)
	if cheapest < 18 || worst > 0.25 {
		t.Errorf("the cheapest mix was found %d times; the worst costs %.0f %% more", cheapest, 100*worst)
	}
}

// cheapestOf plays the work on all mixes.
func cheapestOf(t *testing.T, s replay.Source, types Types, target Target, p MixOf) float64 {
	t.Helper()
	profile := profiles(t, server.DefaultProfile)[0]
	f, err := newFleet(s, types)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.settleAgents(t.Context(), profile); err != nil {
		t.Fatal(err)
	}
	least := math.Inf(1)
	for i := range 64 {
		counts := []int{i % 4, i / 4 % 4, i / 16}
		price := 0.0
		for k, n := range counts {
			price += types[k].Price * float64(n)
		}
		if price >= least {
			continue
		}
		o, err := judge(t.Context(), f.with(counts), profile, target)
		if err != nil {
			t.Fatal(err)
		}
		if o.holds(target, p.Recorded) {
			least = price
		}
	}
	return least
}

// Pods that fit no type are named, with each type's reason. Pods that fit no recorded node either do not count.
func TestMisfits(t *testing.T) {
	two := []record.Node{node("a"), node("b")}
	types := Types{
		typeOf("small", 2, 1, 9), typeOf("big", 8, 3, 9, func(n *record.Node) { n.Taints = `[{"key":"spot","effect":"NoSchedule"}]` }),
	}
	pods := []record.Pod{
		pod("web-1", "a", 3), pod("web-2", "b", 3),
		pod("db-1", "a", 1, func(p *record.Pod) { p.NodeSelector = `{"kubernetes.io/hostname":"a"}` }), pod("x-1", "a", 0),
	}
	_, err := mixes(t, replay.Source{Pods: pods, Nodes: two}, types, Target{Share: 1})
	var misfit *MisfitError
	want := "3 pods fit no type under default-scheduler\n" +
		"  shop/db-1: small: node(s) didn't match Pod's node affinity/selector; big: node(s) had untolerated taint(s)\n" +
		"  shop/web-1: small: Insufficient cpu; big: node(s) had untolerated taint(s)"
	if !errors.As(err, &misfit) || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
	waits := pod("huge-1", "", 9, waiting)
	if p := mix(t, replay.Source{Pods: []record.Pod{waits, pod("web-1", "a", 2), pod("web-2", "a", 2)}, Nodes: two}, types,
		Target{Share: 0.5}); !p.Found || p.Mix["small"] != 2 || p.With.Unplaced != 1 {
		t.Errorf("%+v", p)
	}
}

// Types that do not suffice, and a name that is taken.
func TestNoMix(t *testing.T) {
	pods := []record.Pod{pod("web-1", "a", 2), pod("web-2", "b", 2), pod("web-3", "c", 2)}
	s := replay.Source{Pods: pods, Nodes: []record.Node{node("a"), node("b"), node("c")}}
	if p := mix(t, s, Types{typeOf("small", 2, 1, 2)}, Target{Share: 1}); p.Found ||
		p.Why != "all nodes of the types together offer too little CPU" {
		t.Errorf("%+v", p)
	}
	for i := range s.Pods {
		apart(&s.Pods[i])
	}
	if p := mix(t, s, Types{typeOf("big", 8, 1, 2)}, Target{Share: 1}); p.Found ||
		p.Why != "all nodes of the types together miss the target" || p.Bound != 1 {
		t.Errorf("%+v", p)
	}
	main := node("small-7")
	main.Labels = `{"node-role.kubernetes.io/control-plane":""}`
	s.Nodes = append(s.Nodes, main)
	if _, err := mixes(t, s, Types{typeOf("small", 2, 1, 9)}, Target{Share: 1}); !errors.Is(err, ErrNameTaken) ||
		!strings.HasSuffix(err.Error(), "like the control-plane node small-7") {
		t.Error(err)
	}
}

// A search that is limited or interrupted returns its findings so far, and equal searches find the same.
func TestMixEndsEarly(t *testing.T) {
	s := replay.Source{From: t0, To: t0 + 100_000, Nodes: []record.Node{node("a"), node("b")}}
	for i := range 12 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("web-%d", i), "a", 1+int64(i%3), func(p *record.Pod) { p.Memory = int64(1+i*5%7) << 30 }))
	}
	types := Types{typeOf("odd", 5, 2.6, 20), typeOf("small", 2, 1.2, 20), typeOf("big", 8, 4.5, 20)}
	s.Nodes[0].MilliCPU, s.Nodes[0].Memory = 64_000, 256<<30
	for _, n := range []int{2, 3, 100} {
		p := mix(t, s, types, Target{Share: 1, Evaluations: n})
		if p.Evaluations > n || (p.Cut == "") != (n == 100) {
			t.Errorf("%d: %+v", n, p)
		}
		if again := mix(t, s, types, Target{Share: 1, Evaluations: n}); !reflect.DeepEqual(p, again) {
			t.Errorf("%+v and %+v", p, again)
		}
	}
	for _, at := range []int{1, 4} {
		ctx, cancel := context.WithCancel(t.Context())
		m, err := types.FindMixes(ctx, s, profiles(t, server.DefaultProfile, "most-allocated"), Target{Share: 1, Evaluations: 100},
			func(_ string, n int) {
				if n == at {
					cancel()
				}
			})
		if err != nil || len(m.Profiles) != 1 || m.Profiles[0].Cut != cutInterrupt || m.Profiles[0].Found != (at == 4) {
			t.Errorf("%d: %v, %+v", at, err, m)
		}
	}
	m, err := types.FindMixes(t.Context(), s, profiles(t, server.DefaultProfile, "most-allocated"),
		Target{Share: 1, Evaluations: 100}, func(string, int) {})
	if err != nil {
		t.Fatal(err)
	}
	paid := 12.5
	m.Paid = &paid
	m.Profiles = append(m.Profiles, MixOf{
		Profile: "unlucky", Why: "all nodes of the types together miss the target", Bound: 3, By: "CPU",
		Ended: Ended{Evaluations: 7, Cut: cutLimit},
	})
	var b bytes.Buffer
	if err := m.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "mixes.txt", b.String())
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "mixes.json", string(text)+"\n")
}

// The record's own types, by a label, with the zones in which they are.
func TestRecordedTypes(t *testing.T) {
	nodes := []record.Node{node("b"), node("a"), node("c"), node("d"), node("main")}
	for i, labels := range []string{`{"type":"m","topology.kubernetes.io/zone":"2"}`, `{"type":"m","topology.kubernetes.io/zone":"1"}`,
		`{"type":"c"}`, `{}`, `{"type":"m","node-role.kubernetes.io/control-plane":""}`} {
		nodes[i].Labels = labels
	}
	nodes[1].MilliCPU, nodes[1].Unschedulable = 3900, true
	got := RecordedTypes(&replay.Source{Nodes: nodes, From: t0, To: t0 + 1000}, "type")
	if len(got) != 2 || got[0].Name != "c" || got[1].Name != "m" || len(got[0].Nodes) != 1 || len(got[1].Nodes) != 2 {
		t.Fatalf("%+v", got)
	}
	n := got[1].node(3, t0)
	if n.Name != "m-3" || n.MilliCPU != 3900 || n.Unschedulable ||
		n.Labels != `{"kubernetes.io/hostname":"m-3","topology.kubernetes.io/zone":"2","type":"m"}` {
		t.Errorf("%+v", n)
	}
}

// The cost of the recorded workers counts the time in which they existed.
func TestRecordedPrice(t *testing.T) {
	s := replay.Source{From: t0, To: t0 + 100_000, Nodes: []record.Node{node("a"), node("b"), node("main")}}
	s.Nodes[1].To, s.Nodes[1].Gone = t0+25_000, true
	s.Nodes[2].Labels = `{"node-role.kubernetes.io/control-plane":""}`
	prices, err := replay.ParsePrices([]byte("other: {core: 0.5}"))
	if err != nil {
		t.Fatal(err)
	}
	if x, known := Recorded(&s, prices); !known || math.Abs(x-2.5) > 1e-9 {
		t.Errorf("%v", x)
	}
	if prices, err = replay.ParsePrices([]byte("nodes: {m: 1}")); err != nil {
		t.Fatal(err)
	}
	if _, known := Recorded(&s, prices); known {
		t.Error("nothing prices the nodes")
	}
}

// The part of a room that pods of some sizes can fill, against all sums.
func TestFilled(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		room  float64
		want  float64
	}{
		{nil, 7, 7}, {[]int64{0}, 7, 7}, {[]int64{3}, 7, 6}, {[]int64{3, 5}, 7, 6}, {[]int64{3, 5}, 8, 8}, {[]int64{4, 6}, 11, 10},
		{[]int64{9}, 7, 0},
		{[]int64{250, 1000}, 1800, 1750}, {[]int64{1000, 3000}, 3800, 3000}, {[]int64{1, 1 << 30}, 7 << 30, 7 << 30}, {[]int64{2}, -3, -3},
	} {
		var z sizes
		z[0] = map[int64]bool{}
		for _, x := range c.sizes {
			z[0][x] = true
		}
		if got := z.filled(0, []float64{c.room, 0}); got[0] != c.want || got[1] != 0 {
			t.Errorf("%v in %v: %v, want %v", c.sizes, c.room, got, c.want)
		}
	}
}
