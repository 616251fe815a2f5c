package plugin

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/online"
	"gnnsched/scheduler/policy"
)

// streamEnv makes the test binary a trainer that keeps the stream in the file of that name.
const streamEnv = "GNNSCHED_TEST_STREAM"

func TestMain(m *testing.M) {
	if path := os.Getenv(streamEnv); path != "" {
		f, err := os.Create(path)
		if err == nil {
			_, err = io.Copy(f, os.Stdin)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func learning(t testing.TB, epsilon float64) Args {
	return Args{Checkpoint: untrained(t, 1, nil), Learn: &LearnArgs{
		Trainer: []string{os.Args[0]}, Objective: "balance", InitEpsilon: epsilon, EpsilonDecay: 1, FinalEpsilon: epsilon,
	}}
}

// drawing is learning with an actor-critic.
func drawing(t testing.TB) Args {
	a := learning(t, 0)
	a.Checkpoint = untrainedOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8}, 1, nil)
	return a
}

// newLearningBed is newBed with a trainer, and with the same draws every time; finish ends the
// trainer and returns its steps.
func newLearningBed(t *testing.T, profile string, args Args) (b *bed, finish func() []online.Step) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stream")
	t.Setenv(streamEnv, path)
	b = newBed(t, profile, args)
	b.learner.rng = rand.New(rand.NewPCG(1, 2))
	return b, func() []online.Step {
		if err := b.sched.Profiles.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := online.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var out []online.Step
		for {
			s, err := r.Read()
			if err == io.EOF { //nolint:errorlint // the bare one is promised
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
	}
}

// cycle does what the scheduling cycle does with a pod up to the choice of a node and the
// reservation. It returns false where the pod fits on fewer than two nodes.
func (b *bed) cycle(t rapid.TB, profile string, pod *v1.Pod) (state fwk.CycleState, node string, ok bool) {
	if err := b.sched.Cache.UpdateSnapshot(b.log, b.sched.Profiles[profile].SnapshotSharedLister().(*cache.Snapshot)); err != nil {
		t.Fatal(err)
	}
	nodes, state := b.filter(t, profile, pod)
	if len(nodes) < 2 {
		return nil, "", false
	}
	f := b.sched.Profiles[profile]
	if st := f.RunPreScorePlugins(b.ctx, state, pod, nodes); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	got, st := f.RunScorePlugins(b.ctx, state, pod, nodes)
	if !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	best := slices.MaxFunc(got, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) })
	if st := f.RunReservePluginsReserve(b.ctx, state, pod, best.Name); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	return state, best.Name, true
}

// Every bound pod becomes a step with the node that it got and the objective's cost before
// and after; one whose binding fails is a gap.
func TestBindingsBecomeSteps(t *testing.T) {
	const profile = "learns"
	b, finish := newLearningBed(t, profile, learning(t, 0.5))
	var want []online.Step
	number := uint64(0)
	for seed := range 30 {
		state := rapid.Custom(drawState).Example(seed)
		unload := b.load(t, state)
		cycle, node, ok := b.cycle(t, profile, state.waiting)
		if ok {
			number++
			f := b.sched.Profiles[profile]
			if seed%5 == 0 {
				f.RunReservePluginsUnreserve(b.ctx, cycle, state.waiting, node)
			} else {
				f.RunPostBindPlugins(b.ctx, cycle, state.waiting, node)
				before, after := costsOf(b.learner, state.waiting, node)
				want = append(want, online.Step{Number: number, Action: actionOf(b.learner, node), Before: before, After: after})
				waitSent(t, profile, len(want))
			}
		}
		unload()
	}
	got := finish()
	if len(got) != len(want) || len(want) < 10 {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Number != w.Number || g.Action != w.Action || math.Abs(g.Before-w.Before) > 1e-9 || math.Abs(g.After-w.After) > 1e-9 || g.Before == g.After {
			t.Errorf("step %d is %d: action %d, cost %v to %v; want %d: action %d, cost %v to %v", i, g.Number, g.Action, g.Before, g.After, w.Number, w.Action, w.Before, w.After)
		}
	}
	count := func(result string) float64 { return counter(t, learningSteps.WithLabelValues(profile, result)) }
	if count("dropped") != 0 || count("unbound") != float64(number)-float64(len(want)) {
		t.Errorf("%v dropped, %v unbound of %d", count("dropped"), count("unbound"), number)
	}
}

func counter(t *testing.T, c metrics.CounterMetric) float64 {
	t.Helper()
	v, err := testutil.GetCounterMetricValue(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// waitSent waits until the trainer has the steps; the queue would take few of them otherwise.
func waitSent(t *testing.T, profile string, n int) {
	t.Helper()
	for counter(t, learningSteps.WithLabelValues(profile, "sent")) < float64(n) {
		time.Sleep(time.Millisecond) // the test's own time limit ends a feed that never sends
	}
}

func actionOf(l *Learner, node string) int { return slices.Index(l.rows, l.mirror.row[node]) }

// costsOf evaluates the objective on a cluster made anew.
func costsOf(l *Learner, pod *v1.Pod, node string) (before, after float64) {
	made := func() []*cluster.Node {
		var m mirror
		m.sync(l.mirror.infos)
		return m.snapshot.Nodes
	}
	nodes := made()
	nodes[l.mirror.row[node]].Add(convertPod(pod).Requests)
	return objective.Balance{}.Cost(made()), objective.Balance{}.Cost(nodes)
}

// With epsilon 1 every candidate gets its turn, of equals too.
func TestExploresAllCandidates(t *testing.T) {
	const profile, nodes = "explores", 5
	b, finish := newLearningBed(t, profile, learning(t, 1))
	b.alike(t, profile, nodes)
	chosen := map[string]int{}
	for i := range 200 {
		state, node, ok := b.cycle(t, profile, benchPod(i, i, ""))
		if !ok {
			t.Fatal("no choice")
		}
		chosen[node]++
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, benchPod(i, i, ""), node)
	}
	finish()
	for node, n := range chosen {
		if n < 15 { // 40 are to be expected
			t.Errorf("%s was chosen %d times of 200", node, n)
		}
	}
	if len(chosen) != nodes || counter(t, exploredTotal.WithLabelValues(profile)) != 200 {
		t.Errorf("chosen %v", chosen)
	}
}

func TestExploration(t *testing.T) {
	e := exploration{now: 1, decay: 0.5, final: 0.2}
	for _, want := range []float64{1, 0.5, 0.25, 0.2, 0.2} {
		if got := e.next(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	raw := []float32{1, 1, -3, 1}
	for i := range raw {
		if preferAnother(raw, i); policy.Best(raw) != i || raw[i] > 1.00001 {
			t.Errorf("%d: %v", i, raw)
		}
	}
}

// Without the argument the profile has nothing that explores: kube-scheduler is given another
// type, which has no extension point to learn from.
func TestNothingExploresWithoutLearn(t *testing.T) {
	b := newBed(t, "plain", Args{Checkpoint: untrained(t, 1, nil)})
	if b.plugin == nil || b.learner != nil || b.plugin.explore != nil {
		t.Fatalf("plugin %v, learner %v", b.plugin, b.learner)
	}
	var made fwk.Plugin = b.plugin
	if _, reserves := made.(fwk.ReservePlugin); reserves {
		t.Error("it hears of reservations")
	}
	if _, filters := made.(fwk.PostFilterPlugin); filters {
		t.Error("it hears of pods that wait")
	}
	if _, binds := made.(fwk.PostBindPlugin); binds {
		t.Error("it hears of bindings")
	}
	b.alike(t, "plain", 5)
	_, first, _ := b.cycle(t, "plain", benchPod(0, 0, ""))
	for i := range 200 {
		state, node, ok := b.cycle(t, "plain", benchPod(i, 0, ""))
		if !ok || node != first {
			t.Fatalf("decision %d is %s, not %s", i, node, first)
		}
		if read(state) != nil {
			t.Fatal("the decision was noted")
		}
	}
}

// An actor-critic draws candidates with the probabilities of the softmax of its scores, and the step
// has the logarithm of the chosen one's, and whose it is.
func TestActorCriticDraws(t *testing.T) {
	const profile, nodes, draws = "draws", 5, 4000
	args := drawing(t)
	b, finish := newLearningBed(t, profile, args)
	b.alike(t, profile, nodes)
	start, err := checkpoint.Load(args.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	best, drawn := 0, map[string]int{}
	for i := range draws {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		d := read(state)
		out, err := b.learner.net.NewSession().Score(d.step.State, nil)
		if err != nil {
			t.Fatal(err)
		}
		chances := softmax(out.Scores)
		at := slices.Index(d.rows, b.learner.mirror.row[node])
		if math.Abs(math.Exp(d.step.Log)-chances[at]) > 1e-5 || d.step.Network != start.Fingerprint() || d.step.Action != at {
			t.Fatalf("draw %d: action %d with probability %v of network %x; want %d, %v, %x", i, d.step.Action, math.Exp(d.step.Log), d.step.Network, at, chances[at], start.Fingerprint())
		}
		if at == policy.Best(out.Scores) {
			best++
		}
		drawn[node]++
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, node)
	}
	finish()
	for node, n := range drawn { // nodes in the same state are as likely as each other
		if math.Abs(float64(n)/draws-1./nodes) > 0.03 {
			t.Errorf("%s was drawn %d times of %d", node, n, draws)
		}
	}
	if got := counter(t, exploredTotal.WithLabelValues(profile)); len(drawn) != nodes || got != float64(draws-best) {
		t.Errorf("%v; %v explored, want %d", drawn, got, draws-best)
	}
}

func softmax(scores []float32) []float64 {
	out, total := make([]float64, len(scores)), 0.0
	for i, v := range scores {
		out[i] = math.Exp(float64(v))
		total += out[i]
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

// A node that others chose than the network's probabilities is no step of an actor-critic's.
func TestOverruledDrawsAreNoSteps(t *testing.T) {
	const profile = "overruled"
	b, finish := newLearningBed(t, profile, drawing(t))
	b.alike(t, profile, 5)
	f := b.sched.Profiles[profile]
	for i := range 10 {
		pod := benchPod(i, 0, "")
		nodes, state := b.filter(t, profile, pod)
		if st := f.RunPreScorePlugins(b.ctx, state, pod, nodes); !st.IsSuccess() {
			t.Fatal(st.AsError())
		}
		d := read(state)
		other := nodes[(slices.Index(d.rows, d.drawn)+i%2)%len(nodes)].Node().Name // every second time the drawn one
		if st := f.RunReservePluginsReserve(b.ctx, state, pod, other); !st.IsSuccess() {
			t.Fatal(st.AsError())
		}
		f.RunPostBindPlugins(b.ctx, state, pod, other)
	}
	waitSent(t, profile, 5)
	if got := finish(); len(got) != 5 || counter(t, learningSteps.WithLabelValues(profile, "overruled")) != 5 {
		t.Errorf("%d steps of 10", len(got))
	}
}

// A pod that finds no node counts once, however often it is tried, and the steps after it say so.
func TestWaitsAreCounted(t *testing.T) {
	const profile = "waits"
	b, finish := newLearningBed(t, profile, learning(t, 0))
	b.alike(t, profile, 3)
	f := b.sched.Profiles[profile]
	place := func(i int) {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		f.RunPostBindPlugins(b.ctx, state, pod, node)
	}
	for i, waits := range []int{0, 2, 1} {
		for range waits {
			pod := benchPod(0, 0, "")
			for range 2 { // tried again, it has the condition
				if _, st := b.learner.PostFilter(b.ctx, framework.NewCycleState(), pod, nil); !st.IsRejected() {
					t.Fatalf("status %v", st)
				}
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
			}
		}
		place(i)
	}
	waitSent(t, profile, 3)
	for i, s := range finish() {
		if want := []uint64{0, 2, 3}[i]; s.Waited != want {
			t.Errorf("step %d: %d have waited, want %d", i, s.Waited, want)
		}
	}
	if n := counter(t, waitedTotal.WithLabelValues(profile)); n != 3 {
		t.Errorf("%v are counted", n)
	}
}

// And no code could make it explore: the source has one place that does, which only a
// Learner gets to, which only one place makes, behind the argument.
func TestExplorationHangsOnTheArgument(t *testing.T) {
	for name, want := range map[string]string{
		"newLearner":    "New, if args.Learn != nil",
		"p.explore =":   "newLearner",
		"preferAnother": "explore",
		"policy.Sample": "explore",
		"Learner{":      "newLearner",
	} {
		if got := uses(t, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is in %q, want %q alone", name, got, want)
		}
	}
}

// uses lists the functions, with the nearest condition about args, that call name, assign to
// it or make it.
func uses(t *testing.T, name string) []string {
	t.Helper()
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range packages["plugin"].Files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				walk(f.Body, name, f.Name.Name, func(where string) { out = append(out, where) })
			}
		}
	}
	return out
}

func walk(n ast.Node, name, where string, found func(string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if c := expression(n.Cond); strings.Contains(c, "args.") {
				walk(n.Body, name, where+", if "+c, found)
				return false
			}
		case *ast.CallExpr:
			if expression(n.Fun) == name {
				found(where)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && expression(n.Lhs[0])+" =" == name {
				found(where)
			}
		case *ast.CompositeLit:
			if n.Type != nil && expression(n.Type)+"{" == name && len(n.Elts) > 0 {
				found(where)
			}
		}
		return true
	})
}

func expression(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return expression(e.X) + "." + e.Sel.Name
	case *ast.BinaryExpr:
		return expression(e.X) + " " + e.Op.String() + " " + expression(e.Y)
	}
	return ""
}

func TestDecodeLearnArgs(t *testing.T) {
	good := learning(t, 0.1)
	for name, spoil := range map[string]func(*Args){
		"trainer":   func(a *Args) { a.Learn.Trainer = nil },
		"objective": func(a *Args) { a.Learn.Objective = "fun" },
		"epsilon":   func(a *Args) { a.Learn.InitEpsilon = 1.1 },
		"final":     func(a *Args) { a.Learn.FinalEpsilon = 0.2 },
		"decay":     func(a *Args) { a.Learn.EpsilonDecay = math.NaN() },
		"file":      func(a *Args) { a.Checkpoint = "" },
		"heuristic": func(a *Args) { a.Checkpoint, a.Policy = "", "best-fit" },
	} {
		bad, learn := good, *good.Learn
		bad.Learn = &learn
		spoil(&bad)
		bad.Variant = ""
		if err := bad.validateLearn(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := good.validateLearn(); err != nil {
		t.Error(err)
	}
}
