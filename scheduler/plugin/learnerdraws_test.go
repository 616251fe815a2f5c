package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
)

// An actor-critic draws candidates with the softmax probabilities of its scores. The step has the
// drawn one's log-probability and the network's fingerprint.
func TestActorCriticDraws(t *testing.T) {
	const profile, nodes, draws = "draws", 5, 4000
	args := drawing(t)
	b, finish := newLearningBed(t, profile, args)
	b.alike(t, profile, nodes)
	start, err := checkpoint.Load(args.Checkpoint)
	fatal.If(t, err)
	best, drawn := 0, map[string]int{}
	for i := range draws {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		d := noteKey.Read(state)
		out, err := b.plugin.active.load().(*networkDecider).net.NewSession().Score(d.step.State, nil)
		fatal.If(t, err)
		chances := softmax(out.Scores)
		at := slices.Index(d.rows, b.learner.mirror.row[node])
		if math.Abs(math.Exp(d.step.Log)-chances[at]) > 1e-5 || d.step.Network != start.Fingerprint() || d.step.Action != at {
			t.Fatalf("draw %d: action %d with probability %v of network %x; want %d, %v, %x", i, d.step.Action, math.Exp(d.step.Log),
				d.step.Network, at, chances[at], start.Fingerprint())
		}
		if at == policy.Best(out.Scores) {
			best++
		}
		drawn[node]++
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, node)
	}
	finish()
	for node, n := range drawn { // nodes in the same state have the same probability
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

// A step tells whether another node was reserved than the network chose. A placement that the network did not decide,
// and one on a node that it did not see, leave a gap in the numbers; a pod with one feasible node does not.
func TestOverruledStepsAreMarked(t *testing.T) {
	for head, args := range map[string]Args{"drawn": drawing(t), "best": learning(t, 0)} {
		profile := "overruled-" + head
		b, finish := newLearningBed(t, profile, args)
		b.alike(t, profile, 5)
		f := b.sched.Profiles[profile]
		place := func(i int, change func(d *note, nodes []fwk.NodeInfo) string) {
			pod := benchPod(i, 0, "")
			nodes, state := b.filter(t, profile, pod)
			if st := f.RunPreScorePlugins(b.ctx, state, pod, nodes); !st.IsSuccess() {
				t.Fatal(st.AsError())
			}
			node := change(noteKey.Read(state), nodes)
			if node == "" { // as if the network had failed
				decisionKey.Read(state).decision.Fallback = "failed"
				noteKey.Delete(state)
				node = nodes[0].Node().Name
			}
			if st := f.RunReservePluginsReserve(b.ctx, state, pod, node); !st.IsSuccess() {
				t.Fatal(st.AsError())
			}
			f.RunPostBindPlugins(b.ctx, state, pod, node)
		}
		// Equal nodes have equal scores, of which exploration raised one, or this test does.
		chosen := func(d *note) int {
			best := policy.Best(d.scores)
			preferAnother(d.scores, best)
			return best
		}
		nodeOf := func(d *note, i int) string { return b.learner.mirror.infos[d.rows[i]].Node().Name }
		for i := range 4 { // numbers 1 to 4, every second overruled
			place(i, func(d *note, _ []fwk.NodeInfo) string { return nodeOf(d, (chosen(d)+i%2)%len(d.rows)) })
		}
		place(4, func(*note, []fwk.NodeInfo) string { return "" }) // 5
		place(5, func(d *note, nodes []fwk.NodeInfo) string {      // 6
			best := chosen(d)
			node := nodeOf(d, best)
			d.rows = slices.Delete(slices.Clone(d.rows), best, best+1)
			return node
		})
		pod := benchPod(6, 0, "")
		_, only := b.filter(t, profile, pod) // as if one node were feasible, which is not scored
		if st := f.RunReservePluginsReserve(b.ctx, only, pod, b.learner.mirror.infos[0].Node().Name); !st.IsSuccess() {
			t.Fatal(st.AsError())
		}
		f.RunPostBindPlugins(b.ctx, only, pod, b.learner.mirror.infos[0].Node().Name)
		place(7, func(d *note, _ []fwk.NodeInfo) string { return nodeOf(d, chosen(d)) }) // 7
		waitSent(t, profile, 5)
		var numbers []uint64
		for _, s := range finish() {
			numbers = append(numbers, s.Number)
			if want := s.Number == 2 || s.Number == 4; s.Overruled != want || want && s.Log != 0 {
				t.Errorf("%s: step %d is overruled: %v, log-probability %v", head, s.Number, s.Overruled, s.Log)
			}
		}
		if want := []uint64{1, 2, 3, 4, 7}; !slices.Equal(numbers, want) {
			t.Errorf("%s: steps %v, want %v", head, numbers, want)
		}
		if n := counter(t, learningSteps.WithLabelValues(profile, "overruled")); n != 3 {
			t.Errorf("%s: %v are counted as overruled, want 3", head, n)
		}
	}
}

// A pod that finds no node counts once, however often it is tried. Later steps contain the count.
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
			for range 2 { // at the second attempt it has the condition
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

// Without LearnArgs the plugin is of a type that cannot explore and that implements no extension
// point of a learner.
func TestNothingExploresWithoutLearn(t *testing.T) {
	b := newBed(t, "plain", Args{Checkpoint: untrained(t, 1, nil)})
	if b.plugin == nil || b.learner != nil || b.plugin.observer != observer(nobody{}) {
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
		if noteKey.Read(state) != nil || decisionKey.Read(state) != nil {
			t.Fatal("the decision was noted")
		}
	}
}

// Only learner explores, and only newPlugin makes one, behind a check of the argument. The test reads the
// source.
func TestExplorationHangsOnTheArgument(t *testing.T) {
	for name, want := range map[string]string{
		"newLearner":    "newPlugin, if args.Learn != nil",
		"l.explore":     "scored",
		"preferAnother": "explore",
		"policy.Sample": "explore",
		"learner{":      "newLearner",
	} {
		if got := uses(t, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is in %q, want %q alone", name, got, want)
		}
	}
}

// uses lists the functions that call name, assign to it or make a value of it, each with the condition
// about args around the use.
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
