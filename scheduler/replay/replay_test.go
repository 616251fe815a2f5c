package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

// t0 is when the records of the tests begin, in milliseconds.
const t0 = 1_700_000_000_000

// seconds returns the time s seconds after t0.
func seconds(s int64) int64 { return t0 + 1000*s }

// node makes a row of a node with 4 cores that is there all the time.
func node(name string, labels ...string) record.Node {
	all := []string{fmt.Sprintf(`"kubernetes.io/hostname":%q`, name)}
	for i := 0; i < len(labels); i += 2 {
		all = append(all, fmt.Sprintf("%q:%q", labels[i], labels[i+1]))
	}
	return record.Node{Name: name, From: t0, MilliCPU: 4000, Memory: 16 << 30, Pods: 110, Labels: "{" + strings.Join(all, ",") + "}"}
}

// pod makes a row of a pod of one core that arrived the given seconds after t0, was bound two seconds later, and stays.
func pod(name string, after int64, change ...func(*record.Pod)) record.Pod {
	p := record.Pod{
		UID: name, Namespace: "shop", Name: name, MilliCPU: 1000, Memory: 1 << 30, Arrived: seconds(after), Bound: seconds(after + 2), Node: "a",
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// source makes a source of 100 seconds.
func source(pods []record.Pod, nodes ...record.Node) Source {
	return Source{Pods: pods, Nodes: nodes, From: t0, To: seconds(100)}
}

func profile(t testing.TB, policy string) config.KubeSchedulerProfile {
	t.Helper()
	p, err := server.ProfileNamed(policy)
	fatal.If(t, err)
	c, err := server.Config{Profiles: []server.Profile{p}, QPS: 1}.Decode()
	fatal.If(t, err)
	return c.Profiles[0]
}

// packs plays a source under a policy that packs, so that pods share a node unless something forbids it. homes are the nodes
// of the pods at the end.
func packs(t *testing.T, s Source) (c Course, homes map[string]string) {
	t.Helper()
	return plays(t, s, "most-allocated")
}

// plays is packs under another policy.
func plays(t *testing.T, s Source, policy string) (c Course, homes map[string]string) {
	t.Helper()
	p, err := begin(t.Context(), s, Config{Profile: profile(t, policy), Objective: objective.Balance{}, Blocks: 20}, false)
	if err == nil {
		err = p.run(t.Context())
	}
	fatal.If(t, err)
	homes = map[string]string{}
	for uid, pod := range p.Running {
		homes[string(uid)] = pod.Spec.NodeName
	}
	return p.finish(), homes
}

// A replay counts pods by kind: the only node for pods that came before is kept for such pods.
func TestKindsAreCounted(t *testing.T) {
	pods := []record.Pod{pod("db", 1, func(p *record.Pod) {
		p.NodeSelector, p.Ended, p.End = `{"disk":"ssd"}`, seconds(20), record.Succeeded
	}), pod("web", 50)}
	for policy, want := range map[string]string{"linear": "a", "price": "b", "gnn": "b"} {
		if _, homes := plays(t, source(pods, node("a", "disk", "ssd"), node("b")), policy); homes["web"] != want {
			t.Errorf("%s: web is on %q, want %s", policy, homes["web"], want)
		}
	}
}

// Each constraint of a record keeps a pod from the node on which it would be without.
func TestConstraints(t *testing.T) {
	labels := func(p *record.Pod) { p.Labels = `{"app":"web"}` }
	for _, c := range []struct {
		name  string
		with  func(*record.Pod) // of the pod "last"
		nodes []record.Node
		first func(*record.Pod)
		want  string // the node of "last"; "" if it fits nowhere
	}{
		{name: "nothing", want: "a"},
		{name: "node selector", with: func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` }, want: "b"},
		{name: "node affinity", with: func(p *record.Pod) {
			p.Affinity = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}}}`
		}, want: "b"},
		{name: "pod anti-affinity", first: labels, with: func(p *record.Pod) {
			p.Affinity = `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"kubernetes.io/hostname"}]}}`
		}, want: "b"},
		{name: "pod affinity", first: func(p *record.Pod) { p.NodeSelector, p.Labels = `{"disk":"ssd"}`, `{"app":"web"}`; p.MilliCPU = 100 },
			with: func(p *record.Pod) {
				p.Affinity = `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"kubernetes.io/hostname"}]}}`
			}, want: "b"},
		{name: "spreading", first: labels, with: func(p *record.Pod) {
			p.Labels = `{"app":"web"}`
			p.Spread = `[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"web"}}}]`
		}, want: "b"},
		{name: "host ports", first: func(p *record.Pod) { p.HostPorts = `["TCP/0.0.0.0/80"]` },
			with: func(p *record.Pod) { p.HostPorts = `["TCP/0.0.0.0/80"]` }, want: "b"},
		{name: "extended resources", with: func(p *record.Pod) { p.Extended = `{"example.com/disk":"1"}` }, want: "b"},
		{name: "GPUs", with: func(p *record.Pod) { p.GPU = 1 }, want: "b"},
		{name: "CPU", with: func(p *record.Pod) { p.MilliCPU = 3500 }, want: "b"},
		{name: "memory", with: func(p *record.Pod) { p.Memory = 15<<30 + 1 }, want: "b"},
		{name: "number of pods", nodes: []record.Node{few(node("a")), node("b", "disk", "ssd")}, want: "b"},
		{name: "cordon", nodes: []record.Node{cordoned(node("a")), node("b", "disk", "ssd")}, want: "b"},
		{name: "taint", nodes: []record.Node{tainted(node("a")), node("b", "disk", "ssd")}, want: "b"},
		{name: "toleration", nodes: []record.Node{tainted(node("a")), cordoned(node("b", "disk", "ssd"))},
			with: func(p *record.Pod) { p.Tolerations = `[{"key":"for","operator":"Exists"}]` }, want: "a"},
		{name: "nowhere", with: func(p *record.Pod) { p.MilliCPU = 5000 }, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := c.nodes
			if nodes == nil {
				b := node("b", "disk", "ssd")
				b.Extended, b.GPU = `{"example.com/disk":"1"}`, 1
				nodes = []record.Node{node("a"), b}
			}
			first := pod("first", -5)
			if c.first != nil {
				c.first(&first)
			}
			if first.NodeSelector != "" {
				first.Node = "b"
			}
			last := pod("last", 10)
			if c.with != nil {
				c.with(&last)
			}
			out, homes := packs(t, source([]record.Pod{first, last}, nodes...))
			if homes["last"] != c.want || len(out.Notes) != 0 {
				t.Errorf("it is on %q, want %q; %v", homes["last"], c.want, out.Notes)
			}
			if unscheduled := count(c.want == ""); out.Unscheduled != unscheduled || out.Pods != 1 {
				t.Errorf("%d of %d wait at the end, want %d", out.Unscheduled, out.Pods, unscheduled)
			}
		})
	}
}

func few(n record.Node) record.Node      { n.Pods = 1; return n }
func cordoned(n record.Node) record.Node { n.Unschedulable = true; return n }
func tainted(n record.Node) record.Node {
	n.Taints = `[{"key":"for","value":"others","effect":"NoSchedule"}]`
	return n
}

// A pod takes the place of one of lower priority, unless it must not, and its victim waits.
func TestPreemption(t *testing.T) {
	big := func(priority int32, policy string) func(*record.Pod) {
		return func(p *record.Pod) { p.MilliCPU, p.Priority, p.Preemption = 3000, priority, policy }
	}
	for _, c := range []struct {
		name   string
		high   func(*record.Pod)
		runs   string
		waits  float64 // seconds that all pods waited
		counts int
	}{
		{"higher", big(10, "PreemptLowerPriority"), "high", 80, 1},
		{"never", big(10, "Never"), "low", 80, 0},
		{"equal", big(1, "PreemptLowerPriority"), "low", 80, 0},
	} {
		out, homes := packs(t, source([]record.Pod{pod("low", 10, big(1, "")), pod("high", 20, c.high)}, node("a")))
		if homes[c.runs] != "a" || len(homes) != 1 || out.Preempted != c.counts || out.Unscheduled != 1 {
			t.Errorf("%s: %v, %d preempted, %d wait", c.name, homes, out.Preempted, out.Unscheduled)
		}
		if w := out.Whole(); math.Abs(w.Waited-c.waits) > 1e-9 {
			t.Errorf("%s: the pods waited %v s, want %v", c.name, w.Waited, c.waits)
		}
	}
	// The victims of the lowest priority go, on the node that loses the least.
	pods := []record.Pod{
		pod("mid", -5, big(5, "")), pod("low", -5, big(1, ""), func(p *record.Pod) { p.Node = "b" }), pod("high", 20, big(10, "")),
		pod("agent", -5, big(0, ""), func(p *record.Pod) {
			p.Daemon, p.OwnerKind, p.OwnerName, p.Node, p.MilliCPU = true, "DaemonSet", "agent", "b", 10
		}),
	}
	if _, homes := packs(t, source(pods, node("a"), node("b"))); homes["high"] != "b" || homes["mid"] != "a" || homes["low"] != "" ||
		homes["agent"] != "b" {
		t.Errorf("%v", homes)
	}
}

// Pods that waited go first by priority, then by arrival; what finished by itself runs its time, the others end when they
// really did.
func TestTime(t *testing.T) {
	full := func(p *record.Pod) { p.MilliCPU = 4000 }
	ends := func(after int64, how string) func(*record.Pod) {
		return func(p *record.Pod) { p.Ended, p.End = seconds(after), how }
	}
	never := func(p *record.Pod) { p.Preemption = "Never" }
	urgent := func(p *record.Pod) { p.Priority = 5 }
	pods := []record.Pod{
		pod("job", 10, full, never, ends(42, record.Succeeded)),                              // runs 30 s, from 10 to 40
		pod("gone", 11, full, never, ends(30, record.Deleted)),                               // waits until 30, and is deleted
		pod("later", 12, full, never, ends(64, record.Succeeded)),                            // would run 50 s, from 60
		pod("urgent", 13, full, never, urgent, ends(60, record.Deleted)),                     // waits until 40, runs until 60
		pod("static", 50, ends(80, record.Deleted), func(p *record.Pod) { p.Daemon = true }), // stays where it is, even if it does not fit
	}
	out, homes := packs(t, source(pods, node("a")))
	if len(homes) != 1 || homes["later"] != "a" || out.Pods != 4 || out.NeverRan != 1 || out.Unscheduled != 0 {
		t.Errorf("%v: %+v", homes, out)
	}
	// The static pod takes a core until 80; so later begins then.
	if want := []float64{0, 19, 68, 27}; !slices.Equal(out.Waits, want) {
		t.Errorf("the pods waited %v s, want %v", out.Waits, want)
	}
	if w := out.Whole(); w.Seconds != 100 || math.Abs(w.Mean(Waiting)-1.14) > 1e-9 || math.Abs(w.Wait()-28.5) > 1e-9 ||
		math.Abs(w.Mean(Nodes)-.7) > 1e-9 {
		t.Errorf("%+v: %v wait, %v nodes", w, w.Mean(Waiting), w.Mean(Nodes))
	}
	if q := out.WaitQuantile(0.95); q != 68 {
		t.Errorf("95 of 100 pods waited %v s", q)
	}
}

// The first row holds the real events: nodes, times and waits of the record, without new decisions.
func TestReal(t *testing.T) {
	pods := []record.Pod{
		pod("old", -50), pod("web", 10, func(p *record.Pod) { p.Node, p.Ended, p.End = "b", seconds(62), record.Preempted }),
		pod("never", 90, func(p *record.Pod) { p.Bound, p.Node = 0, "" }), pod("quick", 20, func(p *record.Pod) { p.Bound = p.Arrived }),
		pod("over", -90, func(p *record.Pod) { p.Ended = seconds(-10) }), pod("after", 100),
	}
	prices, err := ParsePrices([]byte("label: type\nnodes: {small: 0.5}\nother: {core: 0.25, gib: 0.125}"))
	fatal.If(t, err)
	c := Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 10, Prices: prices}
	out, err := Real(t.Context(), source(pods, node("a", "type", "small"), node("b")), c)
	fatal.If(t, err)
	w := out.Whole()
	if out.Pods != 3 || out.Unscheduled != 1 || out.Preempted != 1 || !slices.Equal(out.Waits, []float64{2, 10, 0}) {
		t.Errorf("%+v", out)
	}
	if math.Abs(w.Mean(Nodes)-1.5) > 1e-9 || math.Abs(w.Mean(Price)-(0.5+0.5*3)) > 1e-9 {
		t.Errorf("%v nodes, %v an hour", w.Mean(Nodes), w.Mean(Price))
	}
	if out.Blocks[0].Pods != 0 || out.Blocks[1].Pods != 1 || out.Blocks[1].Waited != 2 || math.Abs(out.Blocks[1].Mean(Waiting)-0.2) > 1e-9 {
		t.Errorf("%+v", out.Blocks)
	}
}

// Pods that the profile placed on a node that leaves wait again; a node that changes takes effect at its time.
func TestNodes(t *testing.T) {
	leaves, comes := node("a"), node("b")
	leaves.To, leaves.Gone = seconds(50), true
	comes.From = seconds(70)
	out, homes := packs(t, source([]record.Pod{pod("web", 10)}, leaves, comes))
	if homes["web"] != "b" || !slices.Equal(out.Waits, []float64{20}) {
		t.Errorf("%v, waits %v", homes, out.Waits)
	}
	before, after := cordoned(node("a")), node("a")
	before.To, after.From = seconds(40), seconds(40)
	if out, homes := packs(t, source([]record.Pod{pod("web", 10)}, before, after)); homes["web"] != "a" ||
		!slices.Equal(out.Waits, []float64{30}) {
		t.Errorf("%v, waits %v", homes, out.Waits)
	}
}

// Equal seeds give equal courses, with a network too; no goroutine is left.
func TestDeterministic(t *testing.T) {
	// Upstream's recorders of metrics see the end of their context a second later.
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"))
	var pods []record.Pod
	for i := range 60 {
		pods = append(pods, pod(fmt.Sprint("p", i), int64(i), func(p *record.Pod) {
			p.MilliCPU, p.Priority = int64(100+i*37%900), int32(i%3)
			if i%2 == 0 {
				p.Ended, p.End = p.Bound+20_000, record.Succeeded
			}
		}))
	}
	s := source(pods, node("a"), node("b"), node("c"))
	for _, policy := range []string{server.DefaultProfile, "gnn", "most-allocated"} {
		c := Config{Profile: profile(t, policy), Objective: objective.Balance{}, Blocks: 50, Seed: 7}
		first, err := Run(t.Context(), s, c)
		second, err2 := Run(t.Context(), s, c)
		fatal.If(t, errors.Join(err, err2))
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s: %+v and %+v", policy, first, second)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 10, Progress: func(float64) { cancel() }}
	if _, err := Run(ctx, source([]record.Pod{pod("x", 10), pod("y", 20)}, node("a")), c); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A search plays a record many times, so starting the plugins logs nothing at level info.
func TestStartsSilently(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	s := source([]record.Pod{pod("web", 10)}, node("a"))
	if _, err := Run(klog.NewContext(t.Context(), log), s,
		Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 1}); err != nil {
		t.Fatal(err)
	}
	if len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// The pod of a DaemonSet takes its part of a new node, though it was bound a moment later: a waiting pod finds the rest.
func TestDaemonsComeWithTheirNode(t *testing.T) {
	late := node("b")
	late.From = seconds(20)
	changed := late
	late.To, changed.From, changed.Labels = seconds(21), seconds(21), `{"kubernetes.io/hostname":"b","a":"b"}`
	whole := func(p *record.Pod) { p.MilliCPU, p.Bound, p.Node = 4000, 0, "" }
	rest := func(p *record.Pod) { p.MilliCPU, p.Bound, p.Node = 3000, 0, "" }
	daemon := func(p *record.Pod) { p.Daemon, p.OwnerKind, p.Node = true, "DaemonSet", "b" }
	s := source([]record.Pod{
		pod("full", -50, func(p *record.Pod) { p.MilliCPU = 4000 }), pod("whole", 5, whole), pod("rest", 6, rest), pod("daemon", 20, daemon),
	}, node("a"), late, changed)
	if _, homes := packs(t, s); homes["daemon"] != "b" || homes["rest"] != "b" || homes["whole"] != "" {
		t.Errorf("%v", homes)
	}
}
