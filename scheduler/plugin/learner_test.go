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

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
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
	kinds := checkpoint.Architecture{Graph: checkpoint.KindsGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}
	return Args{Checkpoint: untrainedOf(t, kinds, 1, nil), Deadline: duration(time.Hour), Learn: &LearnArgs{
		Trainer: []string{os.Args[0]}, InitEpsilon: epsilon, EpsilonDecay: 1, FinalEpsilon: epsilon,
	}}
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
	if b.learner != nil {
		b.learner.arrivals.arrives(pod, nil)
	}
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

// Each bound pod gives a step with the kinds of pods, what waits and what room there is before the placement. A pod whose binding fails gives
// a gap in the numbers.
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
				step := b.learner.step(&b.learner.mirror.snapshot)
				step.Number = number
				want = append(want, step)
				f.RunPostBindPlugins(b.ctx, cycle, state.waiting, node)
				waitSent(t, profile, len(want))
			}
		}
		unload()
		b.learner.arrivals.leaves(state.waiting)
	}
	got := finish()
	if len(got) != len(want) || len(want) < 10 {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	waits := 0.
	for i, w := range want {
		if d := cmp.Diff(w, got[i]); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
		waits += w.Waits()
	}
	if waits <= 0 {
		t.Error("nothing waits, though the pods that are placed did")
	}
	count := func(result string) float64 { return counter(t, learningSteps.WithLabelValues(profile, result)) }
	if count("dropped") != 0 || count("unbound") != float64(number)-float64(len(want)) {
		t.Errorf("%v dropped, %v unbound of %d", count("dropped"), count("unbound"), number)
	}
}

// A step has what the pods of each kind wait for, in percent of the cluster, and how many more fit.
func TestStepsHoldKinds(t *testing.T) {
	const profile = "kinds"
	b, finish := newLearningBed(t, profile, learning(t, 0))
	b.alike(t, profile, 4)
	for i := range 3 { // they wait while another is placed
		b.learner.arrivals.arrives(benchPod(100+i, 100, ""), nil)
	}
	pod := benchPod(0, 0, "")
	cycle, node, ok := b.cycle(t, profile, pod)
	if !ok {
		t.Fatal("no choice")
	}
	b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, cycle, pod, node)
	waitSent(t, profile, 1)
	steps := finish()
	if len(steps) != 1 || steps[0].Cluster.Nodes != 4 {
		t.Fatalf("%+v", steps)
	}
	capacity := objective.Capacity(b.learner.mirror.snapshot.Nodes)
	waiting := 0.
	for _, k := range b.learner.arrivals.now().Kinds {
		waiting += 100 * k.Waiting * objective.Share(k.Pod.Requests, capacity)
	}
	if got := steps[0].Waits(); waiting <= 0 || math.Abs(got-waiting) > 1e-9 {
		t.Errorf("%v %% of the cluster waits, want %v", got, waiting)
	}
	for _, k := range steps[0].Kinds {
		if k.Seen.Free <= 0 || k.Seen.Places < k.Seen.Free || k.Seen.Breadth != 1 {
			t.Errorf("kind %+v", k)
		}
	}
}

// countFromZero forgets what the process has counted, since it may have run the same test before.
func countFromZero() {
	for _, m := range []interface{ Reset() }{
		decisionDuration, preferencesFailed, fallbacks, decisionsDropped, reloads,
		learningSteps, exploredTotal, trainerRestarts, trainerPlacements, trainerUpdates, trainerNetworks, trainerFigures,
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
		"epsilon":   func(a *Args) { a.Learn.InitEpsilon = 1.1 },
		"final":     func(a *Args) { a.Learn.FinalEpsilon = 0.2 },
		"decay":     func(a *Args) { a.Learn.EpsilonDecay = math.NaN() },
		"file":      func(a *Args) { a.Checkpoint = "" },
		"heuristic": func(a *Args) { a.Checkpoint, a.Policy = "", "best-fit" },
		"graph":     func(a *Args) { a.Checkpoint = untrained(t, 1, nil) },
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
	m.reported(experience.Report{Read: 7, Updates: 1, Figures: map[string]float64{"loss": 0.75}})
	for i := range 20 { // each report has another figure
		m.reported(experience.Report{Read: 7, Updates: 1, Figures: map[string]float64{"loss": 0.75, strings.Repeat("a", i+1): 1}})
		if n := figuresReported(t, "reports"); n != 2 {
			t.Fatalf("%d figures, want those of the last report", n)
		}
	}
	m.reported(experience.Report{Read: 7, Updates: 1, Figures: map[string]float64{"loss": 0.75, "cost": 3}})
	for name, c := range map[string]struct {
		metric metrics.CounterMetric
		want   float64
	}{
		"read":    {trainerPlacements.WithLabelValues("reports", "read"), 187},
		"missing": {trainerPlacements.WithLabelValues("reports", "missing"), 2},
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

// A placement that the network did not decide, and one of a pod with one feasible node, give no step and no gap.
func TestOthersDecisionsAreNoSteps(t *testing.T) {
	const profile = "others"
	b, finish := newLearningBed(t, profile, learning(t, 0))
	b.alike(t, profile, 5)
	f := b.sched.Profiles[profile]
	for i := range 3 {
		pod := benchPod(i, 0, "")
		b.learner.arrivals.arrives(pod, nil)
		nodes, state := b.filter(t, profile, pod)
		if i != 1 { // the second is not scored, as if one node were feasible
			if st := f.RunPreScorePlugins(b.ctx, state, pod, nodes); !st.IsSuccess() {
				t.Fatal(st.AsError())
			}
		}
		if st := f.RunReservePluginsReserve(b.ctx, state, pod, nodes[0].Node().Name); !st.IsSuccess() {
			t.Fatal(st.AsError())
		}
		f.RunPostBindPlugins(b.ctx, state, pod, nodes[0].Node().Name)
	}
	waitSent(t, profile, 2)
	var numbers []uint64
	for _, s := range finish() {
		numbers = append(numbers, s.Number)
	}
	if want := []uint64{1, 2}; !slices.Equal(numbers, want) {
		t.Errorf("steps %v, want %v", numbers, want)
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
		if decisionKey.Read(state) != nil {
			t.Fatal("the decision was noted")
		}
	}
}
