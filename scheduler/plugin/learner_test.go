package plugin

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/usage"
)

// streamEnv makes the test binary act as a trainer that writes the stream to the named file.
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
	return Args{Checkpoint: untrained(t, 1, nil), Deadline: duration(time.Hour), Learn: &LearnArgs{
		Trainer: []string{os.Args[0]}, Objective: "balance", InitEpsilon: epsilon, EpsilonDecay: 1, FinalEpsilon: epsilon,
	}}
}

// drawing returns the arguments of a profile that learns with an actor-critic.
func drawing(t testing.TB) Args {
	a := learning(t, 0)
	a.Checkpoint = untrainedOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8}, 1, nil)
	return a
}

// newLearningBed is newBed with a trainer and a fixed random seed. finish ends the trainer and returns
// the steps that it got.
func newLearningBed(t *testing.T, profile string, args Args, objects ...runtime.Object) (b *bed, finish func() []experience.Step) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stream")
	t.Setenv(streamEnv, path)
	b = newBed(t, profile, args, objects...)
	b.learner.rng = rand.New(rand.NewPCG(1, 2))
	return b, func() []experience.Step {
		fatal.If(t, b.sched.Profiles.Close())
		f := fatal.Value(os.Open(path))(t)
		defer f.Close()
		r := fatal.Value(experience.NewReader(f))(t)
		var out []experience.Step
		for {
			s, err := r.Next()
			if err == io.EOF { //nolint:errorlint // the bare one is promised
				return out
			}
			fatal.If(t, err)
			out = append(out, s)
		}
	}
}

// cycle runs a pod's scheduling cycle up to the reservation of a node. ok is false if the pod fits on
// fewer than two nodes.
func (b *bed) cycle(t rapid.TB, profile string, pod *v1.Pod) (state fwk.CycleState, node string, ok bool) {
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.sched.Profiles[profile].SnapshotSharedLister().(*cache.Snapshot)))
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

// Each bound pod gives a step with its node and the objective's cost before and after. A pod whose
// binding fails gives a gap in the numbers.
func TestBindingsBecomeSteps(t *testing.T) {
	const profile = "learns"
	b, finish := newLearningBed(t, profile, learning(t, 0.5))
	var want []experience.Step
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
				want = append(want, experience.Step{Number: number, Action: actionOf(b.learner, cycle, node), Before: before, After: after})
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
		if g := got[i]; g.Number != w.Number || g.Action != w.Action || math.Abs(g.Before-w.Before) > 1e-9 ||
			math.Abs(g.After-w.After) > 1e-9 || (g.Before == g.After) != (w.Before == w.After) {
			t.Errorf("step %d is %d: action %d, cost %v to %v; want %d: action %d, cost %v to %v", i, g.Number, g.Action, g.Before, g.After,
				w.Number, w.Action, w.Before, w.After)
		}
	}
	count := func(result string) float64 { return counter(t, learningSteps.WithLabelValues(profile, result)) }
	if count("dropped") != 0 || count("unbound") != float64(number)-float64(len(want)) {
		t.Errorf("%v dropped, %v unbound of %d", count("dropped"), count("unbound"), number)
	}
}

// countFromZero forgets what the process has counted, since it may have run the same test before.
func countFromZero() {
	for _, m := range []interface{ Reset() }{
		decisionDuration, preferencesFailed, fallbacks, decisionsDropped, reloads,
		learningSteps, exploredTotal, waitedTotal, trainerRestarts, trainerPlacements, trainerUpdates, trainerNetworks, trainerFigures,
	} {
		m.Reset()
	}
}

func counter(t *testing.T, c metrics.CounterMetric) float64 {
	t.Helper()
	return fatal.Value(testutil.GetCounterMetricValue(c))(t)
}

// waitSent waits until the trainer has n steps, so that the queue does not fill up.
func waitSent(t *testing.T, profile string, n int) {
	t.Helper()
	for counter(t, learningSteps.WithLabelValues(profile, "sent")) < float64(n) {
		time.Sleep(time.Millisecond) // if it never sends, the test's own time limit ends this
	}
}

func actionOf(l *learner, cycle fwk.CycleState, node string) int {
	return slices.Index(noteKey.Read(cycle).rows, l.mirror.row[node])
}

// costsOf evaluates the objective on newly converted nodes.
func costsOf(l *learner, pod *v1.Pod, node string) (before, after float64) {
	made := func() []*cluster.Node {
		m := mirror{reserved: l.mirror.reserved}
		m.sync(l.mirror.infos, false)
		return m.snapshot.Nodes
	}
	nodes := made()
	nodes[l.mirror.row[node]].Add(convertPod(pod).Requests)
	return objective.Balance{}.Cost(made()), objective.Balance{}.Cost(nodes)
}

// With epsilon 1 every candidate is chosen now and then, also among equal ones.
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
		if n < 15 { // 40 are expected
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

func TestDecodeLearnArgs(t *testing.T) {
	good := learning(t, 0.1)
	for name, spoil := range map[string]func(*Args){
		"trainer":   func(a *Args) { a.Learn.Trainer = nil },
		"objective": func(a *Args) { a.Learn.Objective = "fun" },
		"no source": func(a *Args) { a.Learn.Objective = "balance=0.5,hot" },
		"throttled, which metrics.k8s.io does not know": func(a *Args) {
			a.Learn.Objective, a.Usage = "throttled", &usage.Config{Source: usage.MetricsAPISource}
		},
		"throttled, which is not asked": func(a *Args) {
			a.Learn.Objective, a.Usage = "throttled", &usage.Config{Source: usage.PrometheusSource, Queries: map[string]string{"node_throttled": ""}}
		},
		"throttled without a source": func(a *Args) { a.Learn.Objective = "throttled" },
		"epsilon":                    func(a *Args) { a.Learn.InitEpsilon = 1.1 },
		"final":                      func(a *Args) { a.Learn.FinalEpsilon = 0.2 },
		"decay":                      func(a *Args) { a.Learn.EpsilonDecay = math.NaN() },
		"file":                       func(a *Args) { a.Checkpoint = "" },
		"heuristic":                  func(a *Args) { a.Checkpoint, a.Policy = "", "best-fit" },
		"peers": func(a *Args) {
			a.Checkpoint = untrainedOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8,
				Features: []string{"base", "traffic"}}, 1, nil)
		},
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
	later := good
	if later.Checkpoint += ".later"; later.validateLearn() != nil {
		t.Error("a file that comes later is refused")
	}
	for _, objective := range []string{"balance=0.5,hot", "throttled"} {
		good.Learn.Objective, good.Usage = objective, &usage.Config{Source: usage.PrometheusSource}
		if err := good.validateLearn(); err != nil {
			t.Errorf("%s with a source: %v", objective, err)
		}
	}
}

// figuresReported returns the number of a profile's figures that are served as metrics.
func figuresReported(t *testing.T, profile string) (n int) {
	t.Helper()
	families := fatal.Value(legacyregistry.DefaultGatherer.Gather())(t)
	for _, f := range families {
		if f.GetName() != "gnnsched_trainer_figure" {
			continue
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "profile" && l.GetValue() == profile {
					n++
				}
			}
		}
	}
	return n
}

// What a trainer reports becomes metrics. Figures that it reports no longer go. A trainer that is started again counts from 0, and the
// metrics go on.
func TestReportsBecomeMetrics(t *testing.T) {
	countFromZero()
	m := learnMetricsOf("reports")
	m.reported(experience.Report{Read: 100, Missing: 2, Updates: 20, Passed: 1, Figures: map[string]float64{"loss": 0.5}})
	m.reported(experience.Report{Read: 180, Missing: 2, Updates: 36, Passed: 1, Refused: 1,
		Figures: map[string]float64{"loss": 0.25, "cost": 3}})
	m.restarted()
	if n := figuresReported(t, "reports"); n != 0 {
		t.Errorf("%d figures of a trainer that ended", n)
	}
	m.reported(experience.Report{Read: 7, Stale: 1, Updates: 1, Figures: map[string]float64{"loss": 0.75}})
	for i := range 20 { // each report has another figure
		m.reported(experience.Report{Read: 7, Stale: 1, Updates: 1, Figures: map[string]float64{"loss": 0.75, strings.Repeat("a", i+1): 1}})
		if n := figuresReported(t, "reports"); n != 2 {
			t.Fatalf("%d figures, want those of the last report", n)
		}
	}
	m.reported(experience.Report{Read: 7, Stale: 1, Updates: 1, Figures: map[string]float64{"loss": 0.75, "cost": 3}})
	for name, c := range map[string]struct {
		metric metrics.CounterMetric
		want   float64
	}{
		"read": {trainerPlacements.WithLabelValues("reports", "read"), 187}, "missing": {trainerPlacements.WithLabelValues("reports",
			"missing"), 2}, "stale": {trainerPlacements.WithLabelValues("reports", "stale"), 1},
		"updates": {trainerUpdates.WithLabelValues("reports"), 37}, "passed": {trainerNetworks.WithLabelValues("reports", "passed"), 1},
		"refused":  {trainerNetworks.WithLabelValues("reports", "refused"), 1},
		"restarts": {trainerRestarts.WithLabelValues("reports"), 1},
	} {
		if got := counter(t, c.metric); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	course := NewCurveSampler(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	course.Run(ctx) // takes one sample
	s := course.Samples()
	for name, want := range map[string]float64{"loss": 0.75, "cost": 3, "updates": 37, "refused": 1, "sent": 0} {
		if got, known := s.Last("reports", name); !known || got != want {
			t.Errorf("the course has %s %v, %v, want %v", name, got, known, want)
		}
	}
}

// An actor-critic draws candidates with the softmax probabilities of its scores. The step has the
// drawn one's log-probability and the network's fingerprint.
func TestActorCriticDraws(t *testing.T) {
	const profile, nodes, draws = "draws", 5, 4000
	args := drawing(t)
	b, finish := newLearningBed(t, profile, args)
	b.alike(t, profile, nodes)
	start := fatal.Value(checkpoint.Load(args.Checkpoint))(t)
	best, drawn := 0, map[string]int{}
	for i := range draws {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		d := noteKey.Read(state)
		out := fatal.Value(b.plugin.active.load().(*networkDecider).net.NewSession().Score(d.step.State, nil))(t)
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
