package plan

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

const t0 = 1_700_000_000_000

// node makes a row of a node with 4 cores.
func node(name string) record.Node {
	return record.Node{
		Name: name, From: t0, MilliCPU: 4000, Memory: 16 << 30, Pods: 110, Labels: fmt.Sprintf(`{"kubernetes.io/hostname":%q}`, name),
		DoNotDisrupt: "[]",
	}
}

// pod makes a row of a running pod of an owner. Its name begins with its app's name.
func pod(name, on string, cores int64, change ...func(*record.Pod)) record.Pod {
	app, _, _ := strings.Cut(name, "-")
	p := record.Pod{
		UID: name, Namespace: "shop", Name: name, OwnerKind: "ReplicaSet", OwnerName: app, MilliCPU: cores * 1000, Memory: 1 << 30,
		Labels: fmt.Sprintf(`{"app":%q}`, app), Arrived: t0, Bound: t0 + 1, Node: on, Holds: "[]", DoNotDisrupt: "[]", Health: record.Ready,
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func budgetOf(app, limit string) record.Object {
	return record.Object{
		Kind: record.KindBudget, Namespace: "shop", Name: app, From: t0,
		Spec: fmt.Sprintf(`{%s,"selector":{"matchLabels":{"app":%q}}}`, limit, app),
	}
}

func at(t testing.TB, s replay.Source) *State {
	t.Helper()
	return fatal.Value(stateOf(t, s))(t)
}

func stateOf(t testing.TB, s replay.Source) (*State, error) {
	t.Helper()
	s.From, s.To = t0, t0+1000
	c := fatal.Value(server.Config{Profiles: []server.Profile{{SchedulerName: server.DefaultProfile,
		Args: server.Args{Variant: server.DefaultProfile}}}, QPS: 1}.Decode())(t)
	return At(t.Context(), s, c.Profiles[0])
}

// searching is the usual search.
var searching = Search{By: moves.Local{}, Progress: func(float64) {}}

func find(t testing.TB, s replay.Source, l Limits) Moves {
	t.Helper()
	m := fatal.Value(Find(t.Context(), at(t, s), l, searching))(t)
	check(t, s, m)
	return m
}

// check makes the moves on a new cluster and fails if a filter refuses one, a round moves more pods of a budget than it allows, or a node
// reported as empty is not.
func check(t testing.TB, s replay.Source, m Moves) {
	t.Helper()
	st := at(t, s)
	type place struct {
		budget *budget
		round  int
	}
	moved, last := map[place]int{}, 1
	for _, x := range m.Moves {
		i := slices.IndexFunc(s.Pods, func(p record.Pod) bool { return p.Namespace+"/"+p.Name == x.Pod })
		p := st.cluster.Running[replay.Pod(&s.Pods[i]).UID]
		if p.Spec.NodeName != x.From || x.Round < last {
			t.Fatalf("%+v: the pod is on %s, the round before was %d", x, p.Spec.NodeName, last)
		}
		last = x.Round
		for _, name := range slices.Concat(m.Freed, m.Empty) {
			fatal.Value(st.cluster.Cordon(name, true))(t)
		}
		if s.Pods[i].Daemon || s.Pods[i].OwnerKind == "" || s.Pods[i].Claims != "" || strings.Contains(s.Pods[i].Holds, "hostPath") {
			t.Errorf("%+v: this pod must stay", x)
		}
		for _, o := range s.Objects {
			if o.Kind != record.KindBudget {
				continue
			}
			b := fatal.Value(readBudget(&o))(t)
			if b.selects(p) {
				moved[place{st.covers[p.UID], x.Round}]++
			}
		}
		st.cluster.Remove(p.UID)
		choice := fatal.Value(st.cluster.Choose(t.Context(), p))(t)
		if why, refused := choice.Refused[x.To]; refused || slices.Contains(m.Empty, x.To) {
			t.Fatalf("%+v: the node refuses the pod (%s), or was empty", x, why)
		}
		st.cluster.Fix(memcluster.OnDevices(p, x.To, x.GPUs))
	}
	for where, n := range moved {
		if most, err := where.budget.allowed(); err != nil || n > most {
			t.Errorf("round %d moves %d pods of %v, which allows %d (%v)", where.round, n, where.budget, most, err)
		}
	}
	for uid, p := range st.cluster.Running {
		if !st.own[uid] && slices.Contains(m.Freed, p.Spec.NodeName) {
			t.Errorf("%s has %s", p.Spec.NodeName, p.Name)
		}
	}
	if got := len(m.Freed) + len(m.Empty) + len(m.Stay); got != m.Nodes && m.Lower == nil {
		t.Errorf("%d nodes are freed, empty or stay, of %d", got, m.Nodes)
	}
}

func TestWhatStays(t *testing.T) {
	two := []record.Node{node("a"), node("b")}
	for _, c := range []struct {
		name  string
		pods  []record.Pod
		more  []record.Object
		limit Limits
		freed int
		why   string // of some node
	}{
		{"one node suffices", []record.Pod{pod("web-1", "a", 1), pod("web-2", "b", 2)}, nil, Limits{}, 1, "it takes pods"},
		{"too large", []record.Pod{pod("web-1", "a", 3), pod("web-2", "b", 2)}, nil, Limits{}, 0, "1 Insufficient cpu"},
		{"a pod of the node", []record.Pod{pod("web-1", "a", 1), pod("log-1", "a", 1, func(p *record.Pod) { p.Daemon = true }),
			pod("web-2", "b", 2)}, nil, Limits{}, 1, "it takes pods"},
		{"bare pods", []record.Pod{pod("x-1", "a", 1, bare), pod("x-2", "b", 1, bare)}, nil, Limits{}, 0, "no controller"},
		{"volumes", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.Claims = `["d"]` }), pod("x-2", "b", 4)}, nil, Limits{}, 0,
			"it has volumes"},
		{"files of the node", []record.Pod{pod("x-1", "a", 1, holding("emptyDir", "hostPath")), pod("x-2", "b", 4)}, nil,
			Limits{EmptyDirs: true}, 0, "it has hostPath volumes"},
		{"data in the pod", []record.Pod{pod("x-1", "a", 1, holding("emptyDir")), pod("x-2", "b", 3, bare)}, nil, Limits{}, 0,
			"--delete-emptydir-data"},
		{"data that may go", []record.Pod{pod("x-1", "a", 1, holding("emptyDir")), pod("x-2", "b", 3, bare)}, nil, Limits{EmptyDirs: true}, 1,
			"no controller"},
		{"devices", []record.Pod{pod("x-1", "a", 1, holding("resourceClaim")), pod("x-2", "b", 4)}, nil, Limits{}, 0, "it has ResourceClaims"},
		{"a budget without a limit", []record.Pod{pod("db-1", "a", 1), pod("x-1", "b", 2, bare)},
			[]record.Object{budgetOf("db", `"unhealthyPodEvictionPolicy":"AlwaysAllow"`)}, Limits{}, 0, "neither minAvailable nor maxUnavailable"},
		{"a budget that allows nothing", []record.Pod{pod("db-1", "a", 1), pod("x-1", "b", 2, bare)},
			[]record.Object{budgetOf("db", `"minAvailable":1`)}, Limits{}, 0, "allows no disruption"},
		{"two budgets", []record.Pod{pod("db-1", "a", 1), pod("x-1", "b", 2, bare)},
			[]record.Object{budgetOf("db", `"maxUnavailable":1`), func() record.Object {
				o := budgetOf("db", `"maxUnavailable":1`)
				o.Name = "again"
				return o
			}()}, Limits{}, 0, "several PodDisruptionBudgets"},
		{"half of a deadline has passed", []record.Pod{pod("x-1", "a", 1, ends(2*ran)), pod("x-2", "b", 1, bare)}, nil, Limits{}, 0,
			"activeDeadlineSeconds"},
		{"most of a deadline is left", []record.Pod{pod("x-1", "a", 1, ends(2*ran+1)), pod("x-2", "b", 1, bare)}, nil, Limits{}, 1,
			"no controller"},
		{"a limit of pods", []record.Pod{pod("web-1", "a", 1), pod("web-2", "a", 1), pod("x-1", "b", 1, bare)}, nil, Limits{Pods: 1}, 0,
			"2 pods would have to move"},
		{"a limit of memory", []record.Pod{pod("web-1", "a", 1), pod("x-1", "b", 1, bare)}, nil, Limits{Memory: 1 << 20}, 0, "more memory"},
		{"a Workflow's pod", []record.Pod{pod("x-1", "a", 1, owned("Workflow")), pod("x-2", "b", 1, bare)}, nil, Limits{}, 0, "a Workflow, may not"},
		{"a kind that the user knows", []record.Pod{pod("x-1", "a", 1, owned("CloneSet")), pod("x-2", "b", 1, bare)}, nil,
			Limits{Also: []string{"CloneSet"}}, 1, "no controller"},
		{"a Job of which nothing is known", []record.Pod{pod("x-1", "a", 1, owned("Job")), pod("x-2", "b", 1, bare)}, nil, Limits{}, 0,
			"is not known"},
		{"a Job without tries", []record.Pod{pod("x-1", "a", 1, owned("Job")), pod("x-2", "b", 1, bare)}, jobOf("x", 0), Limits{}, 0, "no try left"},
		{"a Job with tries", []record.Pod{pod("x-1", "a", 1, owned("Job")), pod("x-2", "b", 1, bare)}, jobOf("x", 1), Limits{}, 1, "no controller"},
		{"a gang", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.Group = "tr" }), pod("x-2", "b", 1, bare)}, nil, Limits{}, 0,
			"the group tr"},
		{"another scheduler", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.Scheduler = "volcano" }), pod("x-2", "b", 1, bare)}, nil,
			Limits{}, 0, "the scheduler volcano places it"},
		{"a pod that ends for a day", []record.Pod{pod("x-1", "a", 1, func(p *record.Pod) { p.Health = record.Terminating }),
			pod("x-2", "b", 1, bare)}, nil, Limits{}, 0, "it is being deleted, and is still there"},
		{"an empty node takes nothing", []record.Pod{pod("web-1", "a", 1)}, nil, Limits{}, 0, "no other node in use takes it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := find(t, replay.Source{Pods: c.pods, Nodes: two, Objects: c.more}, c.limit)
			if len(m.Freed) != c.freed || !slices.ContainsFunc(m.Stay, func(b Blocked) bool { return strings.Contains(b.Why, c.why) }) {
				t.Errorf("%+v", m)
			}
		})
	}
}

// Nodes without a kubelet neither become empty nor take pods, even those that tolerate it.
func TestDeadNodes(t *testing.T) {
	dead := node("b")
	dead.Taints = `[{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"}]`
	tolerant := func(p *record.Pod) { p.Tolerations = `[{"operator":"Exists"}]` }
	m := find(t, replay.Source{Nodes: []record.Node{node("a"), dead}, Pods: []record.Pod{pod("x-1", "a", 1, tolerant), pod("x-2", "b", 1)}}, Limits{})
	if len(m.Moves) > 0 || !strings.Contains(text(t, m), "b            │    1 │ its kubelet does not answer") {
		t.Errorf("%+v", m)
	}
}

// With nodeTaintsPolicy Honor, nodes that are cordoned to become empty are no domains.
func TestSpreadHonoursTaints(t *testing.T) {
	for policy, want := range map[string]int{"Honor": 2, "Ignore": 0} {
		s := replay.Source{Nodes: []record.Node{node("a"), node("b"), node("c")}}
		for _, on := range []string{"a", "b", "c"} {
			s.Pods = append(s.Pods, pod("web-"+on, on, 1, func(p *record.Pod) {
				p.Spread = fmt.Sprintf(`[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule",`+
					`"labelSelector":{"matchLabels":{"app":"web"}},"nodeTaintsPolicy":%q}]`, policy)
			}))
		}
		if m := find(t, s, Limits{}); len(m.Freed) != want {
			t.Errorf("%s: %+v", policy, m)
		}
	}
}

func owned(kind string) func(*record.Pod) { return func(p *record.Pod) { p.OwnerKind = kind } }

func jobOf(name string, tries int) []record.Object {
	return []record.Object{{Kind: record.KindJob, Namespace: "shop", Name: name, From: t0, Spec: fmt.Sprint(tries)}}
}

func bare(p *record.Pod) { p.OwnerKind = "" }

// ran is how many seconds a pod of ends has run.
const ran = 60

func ends(after int64) func(*record.Pod) {
	return func(p *record.Pod) { p.Arrived, p.Bound, p.Deadline = t0-1000*ran, t0+999-1000*ran, after }
}

func holding(kinds ...string) func(*record.Pod) {
	return func(p *record.Pod) { p.Holds = `["` + strings.Join(kinds, `","`) + `"]` }
}

// A record of an earlier version lacks the pods' holdings, their owners' requests and their health, and the plan notes it.
func TestWhatARecordLacks(t *testing.T) {
	old := func(p *record.Pod) { p.Holds, p.DoNotDisrupt, p.Health = "", "", "" }
	unmarked := node("a")
	unmarked.DoNotDisrupt = ""
	s := replay.Source{
		Nodes: []record.Node{unmarked, node("b")}, Pods: []record.Pod{pod("web-1", "a", 1, old), pod("web-2", "b", 2)},
		Objects: []record.Object{budgetOf("web", `"maxUnavailable":1`)},
	}
	m := find(t, s, Limits{})
	out := text(t, m)
	for _, want := range []string{
		"does not say of 1 pods whether they have emptyDir", "does not say of 1 pods and 1 nodes whether their owners ask to leave them",
		"does not say of 1 pods with a PodDisruptionBudget whether they are ready",
	} {
		if len(m.Freed) != 1 || !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	s.Objects[0].Status = `{"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}`
	if out := text(t, find(t, s, Limits{})); strings.Contains(out, "whether they are ready") {
		t.Errorf("the controller knows:\n%s", out)
	}
}

// The plan uses a pod's health at the time of the plan. Later health does not count.
func TestHealthOfTheTime(t *testing.T) {
	for _, c := range []struct {
		health  string
		since   int64
		budgets []record.Object
		change  func(*record.Pod)
		freed   int
		says    string
	}{
		{record.NotReady, t0, []record.Object{budgetOf("web", `"minAvailable":1`)}, bare, 0, "1 of 2 pods are ready"},
		{record.NotReady, t0 + 1000, []record.Object{budgetOf("web", `"minAvailable":1`)}, bare, 1,
			"1 pods with a PodDisruptionBudget whether they are ready"},
		{record.Terminating, t0, nil, func(*record.Pod) {}, 1, "shop/web-2: it is being deleted"},
	} {
		second := pod("web-2", "b", 1, c.change)
		second.Health, second.HealthSince = c.health, c.since
		m := find(t, replay.Source{
			Nodes: []record.Node{node("a"), node("b"), node("c")}, Objects: c.budgets,
			Pods: []record.Pod{pod("web-1", "a", 1), second, pod("x-1", "c", 1, bare)},
		}, Limits{})
		if out := text(t, m); len(m.Freed) != c.freed || !strings.Contains(out, c.says) {
			t.Errorf("%s:\n%s", c.health, out)
		}
	}
}

// The commands name no node that a shell could read as something else.
func TestCommands(t *testing.T) {
	for _, c := range []struct {
		freed, empty []string
		want         string
	}{
		{nil, []string{"a"}, ""},
		{[]string{"b", "a"}, []string{"c"}, "kubectl cordon b a c --dry-run=server\nkubectl drain b --ignore-daemonsets " +
			"--delete-emptydir-data --dry-run=server\nkubectl drain a --ignore-daemonsets --delete-emptydir-data --dry-run=server"},
		{[]string{"$(reboot)"}, []string{"-h"}, ""},
	} {
		if got := strings.Join(commands(c.freed, c.empty, Limits{EmptyDirs: true}), "\n"); got != c.want {
			t.Errorf("%v, %v: %s", c.freed, c.empty, got)
		}
	}
}

// A control-plane node is neither empty nor emptied, whichever pods run on it.
func TestControlPlane(t *testing.T) {
	main := node("main")
	main.Labels = `{"node-role.kubernetes.io/control-plane":""}`
	for _, pods := range [][]record.Pod{{pod("x-1", "a", 1, bare)}, {pod("x-1", "a", 1, bare), pod("web-1", "main", 1)}} {
		m := find(t, replay.Source{Nodes: []record.Node{node("a"), main}, Pods: pods}, Limits{})
		if len(m.Freed)+len(m.Empty) > 0 || !slices.ContainsFunc(m.Stay, func(b Blocked) bool { return b.Why == "it is a control-plane node" }) {
			t.Errorf("%+v", m)
		}
	}
}

// A budget that lets one pod go makes three rounds of three moves.
func TestRounds(t *testing.T) {
	s := replay.Source{Nodes: []record.Node{node("a"), node("b")}, Objects: []record.Object{budgetOf("web", `"maxUnavailable":"10%"`)}}
	for i := range 3 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("web-%d", i), "a", 1))
	}
	s.Pods = append(s.Pods, pod("x-1", "b", 1, bare))
	m := find(t, s, Limits{})
	if m.Rounds != 3 || len(m.Moves) != 3 {
		t.Errorf("%+v", m)
	}
	fatal.Golden(t, "rounds.txt", text(t, m))
}

func text(t *testing.T, m Moves) string {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, m.WriteText(&b))
	return b.String()
}

// A note says all that a record lacks.
func TestLongNote(t *testing.T) {
	lacks := strings.Repeat("a series with a long name, ", 20) + "requests"
	if got := text(t, Moves{Notes: []string{lacks}}); !strings.Contains(got, "note: "+lacks+"\n") {
		t.Error(got)
	}
}

// A budget of an old record that no program can read is left out, and a note names it.
func TestUnreadableBudget(t *testing.T) {
	for _, spec := range []string{"{", `{"minAvailable":"many","selector":{}}`,
		`{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}`} {
		s := replay.Source{
			Pods: []record.Pod{pod("web-1", "a", 1)}, Nodes: []record.Node{node("a")},
			Objects: []record.Object{{Kind: record.KindBudget, Namespace: "shop", Name: "web", From: t0, Spec: spec}},
		}
		st, err := stateOf(t, s)
		if err != nil || !strings.Contains(strings.Join(st.notes, "\n"), "it protects no pod: PodDisruptionBudget shop/web") {
			t.Errorf("%s: %+v, %v", spec, st, err)
		}
	}
}

// Random clusters: no move breaks a budget or a filter, and the search frees nearly as many nodes as are possible.
func TestAgainstAllPossibilities(t *testing.T) {
	found, possible, bound := 0, 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := replay.Source{Objects: []record.Object{budgetOf("web", `"maxUnavailable":2`)}}
		free := map[string]int64{}
		for _, n := range []string{"a", "b", "c", "d"} {
			s.Nodes = append(s.Nodes, node(n))
			free[n] = 4
		}
		for i := range 7 {
			on, cores := string(rune('a'+r.IntN(4))), 1+r.Int64N(2)
			if free[on] < cores {
				continue
			}
			free[on] -= cores
			s.Pods = append(s.Pods, pod(fmt.Sprintf("%s-%d", []string{"web", "api"}[r.IntN(2)], i), on, cores))
		}
		single, chains, most := find(t, s, Limits{}), find(t, s, Limits{Chains: true}), exhaustive(s)
		if got := len(chains.Freed); len(single.Freed) > got || got > most || most > chains.Bound {
			t.Errorf("seed %d: %d nodes are freed, %d with chains, %d can be, %d is the bound", seed, len(single.Freed), got, most, chains.Bound)
		}
		found, possible, bound = found+len(chains.Freed), possible+most, bound+chains.Bound
	}
	t.Logf("%d nodes are freed of %d; %d is the bound", found, possible, bound)
	if possible == 0 || found*50 < possible*49 {
		t.Errorf("%d nodes are freed of %d", found, possible)
	}
}

// exhaustive returns the largest number of nodes that can be emptied, by trying every set of nodes and every placement of all pods on the
// others. Only cores count.
func exhaustive(s replay.Source) (most int) {
	for set := range 1 << len(s.Nodes) {
		free, in, all, busy := make([]int64, len(s.Nodes)), map[string]int{}, []int64{}, map[int]bool{}
		for i, n := range s.Nodes {
			free[i], in[n.Name] = n.MilliCPU, i
		}
		for _, p := range s.Pods {
			busy[in[p.Node]] = true
			all = append(all, p.MilliCPU)
		}
		for i := range free {
			if set>>i&1 == 1 || !busy[i] {
				free[i] = 0
			}
			if set>>i&1 == 1 && !busy[i] {
				free = nil // an empty node is not freed
				break
			}
		}
		if free != nil && fits(all, free) {
			most = max(most, bits.OnesCount(uint(set)))
		}
	}
	return most
}

func fits(pods, free []int64) bool {
	if len(pods) == 0 {
		return true
	}
	for i := range free {
		if free[i] >= pods[0] {
			free[i] -= pods[0]
			ok := fits(pods[1:], free)
			free[i] += pods[0]
			if ok {
				return true
			}
		}
	}
	return false
}
