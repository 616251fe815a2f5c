package plugin

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/experience"
)

// channelListener passes on what it hears, one decision at a time.
type channelListener chan decision.Decision

func (c channelListener) Decided(d decision.Decision) { c <- d }

// listeningBed is newBed with a listener.
func listeningBed(t *testing.T, profile string, args Args) (*bed, channelListener) {
	t.Helper()
	heard := make(channelListener)
	return newBedWith(t, fake.NewClientset(), profile, args, heard), heard
}

// A heuristic's decision names the best nodes with their raw scores, and the node and the devices
// that the pod got.
func TestDecisionOfAHeuristic(t *testing.T) {
	const profile = "records"
	b, heard := listeningBed(t, profile, Args{Policy: "gpu-best-fit"})
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 4), gpuNode("b", "T4", 2), gpuNode("c", "T4", 3)}})
	pod, state, err := b.attempt(t, profile, gpuPod("p", cluster.Resources{GPU: 2}))
	fatal.If(t, err)
	b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, pod.Spec.NodeName)
	d := <-heard
	nodes := each.Map(d.Best, func(c decision.Candidate) string { return c.Node })
	if !slices.Equal(nodes, []string{"b", "c", "a"}) || d.Best[0].Score <= d.Best[1].Score {
		t.Errorf("best %v", d.Best)
	}
	if d.Latency <= 0 || d.Latency > time.Hour {
		t.Errorf("latency %v", d.Latency)
	}
	d.Best, d.Latency, d.At = nil, 0, time.Time{}
	want := decision.Decision{
		Number: 1, Profile: profile, Pod: decision.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Policy: "gpu-best-fit", Nodes: 3, Feasible: 3, Preferred: 3, Node: "b", Devices: 0b11, Bound: true,
	}
	if fmt.Sprint(d) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", d, want)
	}
	if got := kube.Devices(pod.Annotations); got != 0b11 {
		t.Errorf("the pod has the devices %b", got)
	}
}

// A network's decision has its fingerprint; if the network fails, the decision says why and has
// upstream's scores.
func TestDecisionOfANetwork(t *testing.T) {
	for _, c := range []struct {
		file, fallback string
	}{
		{untrained(t, 1, nil), ""},
		{untrainedOf(t, gpuArchitecture, 1, nil), ""},
		{untrained(t, 1, nil), "not_finite"},
		{"none.safetensors", "no_model"},
	} {
		profile := "records-" + c.fallback
		b, heard := listeningBed(t, profile, Args{Checkpoint: c.file, Deadline: duration(time.Minute)})
		if c.fallback == "not_finite" {
			explode(t, b.plugin)
		}
		b.alike(t, profile, 7)
		pod := benchPod(0, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, node)
		d := <-heard
		if d.Fallback != c.fallback || d.Feasible != 7 || len(d.Best) != decision.MaxBest || d.Node != node || d.Bound || d.Devices != 0 {
			t.Errorf("%s: %+v", c.file, d)
		}
		if d.Fingerprint != b.plugin.active.load().fingerprint() || (d.Fingerprint == 0) != (c.fallback == "no_model") {
			t.Errorf("%s: fingerprint %x", c.file, d.Fingerprint)
		}
		nodes, cycle := b.filter(t, profile, pod)
		raw := make([]float32, len(nodes))
		fatal.If(t, b.plugin.upstream.score(b.ctx, &scoring{state: cycle, pod: pod, nodes: nodes, raw: raw}))
		if upstream := d.Best[0].Score == slices.Max(raw); upstream != (c.fallback != "") {
			t.Errorf("%s: best score %v, upstream's %v", c.file, d.Best[0].Score, slices.Max(raw))
		}
	}
}

// A pod with one feasible node is not scored, but it is heard of, with its devices.
func TestDecisionOfTheOnlyNode(t *testing.T) {
	const profile = "records-only"
	b, heard := listeningBed(t, profile, Args{Policy: "gpu-best-fit"})
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 4), gpuNode("b", "G2", 4)}})
	for i, bound := range []bool{true, false} {
		pod, state, err := b.attempt(t, profile, gpuPod(fmt.Sprint("p", i), cluster.Resources{GPU: 1}, "G2"))
		fatal.If(t, err)
		if bound {
			b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, pod.Spec.NodeName)
		} else {
			b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, pod.Spec.NodeName)
		}
		want := decision.Decision{
			Number: uint64(i + 1), Profile: profile, Pod: decision.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
			Feasible: 1, Preferred: 1, Node: "b", Devices: kube.Devices(pod.Annotations), Bound: bound,
		}
		d := <-heard
		d.At = time.Time{}
		if fmt.Sprint(d) != fmt.Sprint(want) || d.Devices == 0 {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
}

// Decisions arrive in the order in which they were made, though bindings end in another.
func TestDecisionsArriveInOrder(t *testing.T) {
	const profile = "ordered"
	b, heard := listeningBed(t, profile, Args{Policy: "round-robin"})
	b.alike(t, profile, 3)
	f := b.sched.Profiles[profile]
	var end []func()
	for i := range 4 {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		end = append(end, func() { f.RunPostBindPlugins(b.ctx, state, pod, node) })
	}
	for _, i := range []int{2, 1, 3, 0} {
		end[i]()
	}
	for i := range 4 {
		if d := <-heard; d.Number != uint64(i+1) || d.Pod.Name != fmt.Sprint("pod-", i) || d.Node != fmt.Sprint("n", i%3) {
			t.Errorf("decision %d is %+v", i+1, d)
		}
	}
}

// A listener that never returns holds up no pod: decisions beyond its queue are dropped and counted.
func TestSlowListenerDropsDecisions(t *testing.T) {
	const profile, pods = "slow", 3 * queued
	b, heard := listeningBed(t, profile, Args{Policy: "best-fit"})
	b.alike(t, profile, 3)
	f := b.sched.Profiles[profile]
	for i := range pods {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		f.RunPostBindPlugins(b.ctx, state, pod, node)
	}
	dropped := int(counter(t, decisionsDropped.WithLabelValues(profile)))
	if dropped < pods-queued-1 || dropped > pods-queued { // the listener may hold one besides the queue
		t.Errorf("%d were dropped of %d, the queue holds %d", dropped, pods, queued)
	}
	for range pods - dropped {
		<-heard
	}
}

// Closing the profile's plugins ends the queues' goroutines, after the listeners heard the rest.
func TestCloseEndsTheQueues(t *testing.T) {
	const profile = "closes"
	heard := make(channelListener, queued)
	b := newBedWith(t, fake.NewClientset(), profile, Args{Policy: "best-fit"}, heard, heard)
	b.alike(t, profile, 3)
	if n := queueGoroutines(); n < 2 {
		t.Fatalf("%d queues run", n)
	}
	before := queueGoroutines()
	pod := benchPod(0, 0, "")
	state, node, ok := b.cycle(t, profile, pod)
	if !ok {
		t.Fatal("no choice")
	}
	b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, node)
	fatal.If(t, b.sched.Profiles.Close())
	if n := len(heard); n != 2 {
		t.Errorf("two listeners heard %d decisions", n)
	}
	if n := queueGoroutines(); n != before-2 {
		t.Errorf("%d queues run, before %d", n, before)
	}
}

// queueGoroutines counts the goroutines of queues. goleak would count those of upstream's scheduler
// too, which end only with the test.
func queueGoroutines() int {
	stacks := make([]byte, 10<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by gnnsched/scheduler/decision.NewQueue")
}

// Without a listener no decision is made, and the plugin is not told of reservations.
func TestNoListenerNoDecision(t *testing.T) {
	const profile = "unheard"
	b := newBed(t, profile, Args{Policy: "best-fit"})
	b.alike(t, profile, 3)
	nodes, state := b.filter(t, profile, benchPod(0, 0, ""))
	if s := b.plugin.PreScore(b.ctx, state, benchPod(0, 0, ""), nodes); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if decisionKey.Read(state) != nil {
		t.Error("a decision was made")
	}
	if decisionKey.Read(framework.NewCycleState()) != nil {
		t.Error("a decision of another cycle was found")
	}
}

// A learner that misses decisions counts their steps as dropped.
func TestLearnerCountsMissedDecisions(t *testing.T) {
	const profile = "misses"
	b, finish := newLearningBed(t, profile, learning(t, 0))
	step := func(n uint64, bound bool) decision.Decision {
		return decision.Decision{Number: n, Bound: bound, Step: b.learner.testStep(n)}
	}
	for n := range uint64(2) {
		b.learner.missed(step(n+1, true))
	}
	b.learner.Decided(step(3, true))
	b.learner.Decided(step(4, false))
	b.learner.Decided(decision.Decision{Number: 5, Bound: true})
	waitSent(t, profile, 1)
	got := finish()
	count := func(result string) float64 { return counter(t, learningSteps.WithLabelValues(profile, result)) }
	if len(got) != 1 || got[0].Number != 3 || count("dropped") != 2 || count("unbound") != 1 {
		t.Errorf("%d steps, %v dropped, %v unbound", len(got), count("dropped"), count("unbound"))
	}
	if got[0].Actor == "" || got[0].Actor != b.learner.actor {
		t.Errorf("actor %q", got[0].Actor)
	}
}

// testStep is a valid step of the learner.
func (l *learner) testStep(number uint64) experience.Step {
	return experience.Step{Actor: l.actor, Epoch: l.epoch, Number: number, Kinds: []experience.Kind{{}}}
}

// recordedBed is newBed with a book, and with upstream's refusals counted.
func recordedBed(t *testing.T, profile string, args Args) (*bed, *decision.Book) {
	t.Helper()
	if args.Deadline.Duration == 0 {
		args.Deadline = duration(time.Hour)
	}
	book := decision.NewBook(100, nil)
	b := newBedWith(t, fake.NewClientset(), profile, args, book)
	WatchFailures(b.sched, book.Decided)
	return b, book
}

// decided places a pod and returns its record.
func (b *bed) decided(t *testing.T, profile string, book *decision.Book, pod *v1.Pod) decision.Record {
	t.Helper()
	bound, state, err := b.attempt(t, profile, pod)
	fatal.If(t, err)
	b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, bound, bound.Spec.NodeName)
	for range 1000 {
		if found := book.Last(decision.Query{Namespace: pod.Namespace, Pod: pod.Name}); len(found) > 0 {
			return found[0]
		}
		time.Sleep(time.Millisecond) // the queue's goroutine
	}
	t.Fatal("no record")
	return decision.Record{}
}

// fail lets an attempt to place a pod fail.
func (b *bed) fail(t *testing.T, profile string, pod *v1.Pod) {
	t.Helper()
	_, _, err := b.attempt(t, profile, pod)
	if err == nil {
		t.Fatal("the pod fits")
	}
	info, wrong := framework.NewPodInfo(pod)
	if wrong != nil {
		t.Fatal(wrong)
	}
	status := fwk.NewStatus(fwk.Unschedulable).WithError(err)
	b.sched.FailureHandler(b.ctx, b.sched.Profiles[profile], &framework.QueuedPodInfo{PodInfo: info}, status, nil, time.Unix(1, 0))
}

// The record of a decision has what the default profile would choose, and why nodes were refused.
func TestRecordedDecision(t *testing.T) {
	const profile = "recorded"
	b, book := recordedBed(t, profile, Args{Policy: "linear"})
	b.alike(t, profile, 5)
	for i := range 3 {
		n := gpuNode(fmt.Sprint("g", i), "T4", 1)
		n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}}
		b.sched.Cache.AddNode(b.log, n)
	}
	r := b.decided(t, profile, book, benchPod(1, 0, ""))
	if r.Nodes != 8 || r.Feasible != 5 || r.Outcome != decision.Bound {
		t.Errorf("%+v", r)
	}
	if len(r.Refused) != 1 || r.Refused[0].Plugin != "TaintToleration" || r.Refused[0].Nodes != 3 ||
		!strings.Contains(r.Refused[0].Reason, "taint") {
		t.Errorf("refused %+v", r.Refused)
	}
	if r.Default == nil || r.Default.Ties != 5 || r.Default.Node != r.Best[0].Node || !r.Default.Preferred {
		t.Errorf("default %+v, best %+v", r.Default, r.Best)
	}
}

// The default profile's choice in a record is the one that the default profile makes.
func TestRecordedDefault(t *testing.T) {
	const profile = "recorded-default"
	b, book := recordedBed(t, profile, Args{Policy: "most-allocated"})
	b.alike(t, profile, 6)
	for i := range 20 {
		pod := benchPod(i, i, "")
		fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
		totals := b.totals(t, defaultProfile, pod)
		r := b.decided(t, profile, book, pod)
		best, ties := int64(-1), 0
		var at int64
		for _, n := range totals {
			switch {
			case n.TotalScore > best:
				best, ties = n.TotalScore, 1
			case n.TotalScore == best:
				ties++
			}
			if r.Default != nil && n.Name == r.Default.Node {
				at = n.TotalScore
			}
		}
		if r.Default == nil || at != best || r.Default.Ties != ties {
			t.Errorf("pod %d: %+v has %d, the best %d nodes have %d", i, r.Default, at, ties, best)
		}
	}
}

// The message of a pod that fits nowhere has the cause, and says once that no node is available.
func TestFitMessage(t *testing.T) {
	fit := &framework.FitError{NumAllNodes: 2, Diagnosis: framework.Diagnosis{
		NodeToStatus:  framework.NewDefaultNodeToStatus(),
		PostFilterMsg: "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
	}}
	fit.Diagnosis.NodeToStatus.Set("a", fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu"))
	fit.Diagnosis.NodeToStatus.Set("b", fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu", "Insufficient memory"))
	const want = "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: 2 No preemption victims found for incoming pod."
	if got := fitMessage(fit); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d, _ := refusalOf(&v1.Pod{}, fwk.AsStatus(fit), nil)
	if want := []decision.Refusal{{Reason: "Insufficient cpu", Nodes: 1}, {Reason: "Insufficient cpu, Insufficient memory", Nodes: 1}}; !slices.Equal(d.Refused, want) {
		t.Errorf("refused: %+v, want %+v", d.Refused, want)
	}
}

// A pod that fits nowhere leaves a record with upstream's reasons. Upstream's failure handler still runs.
func TestRecordedFailure(t *testing.T) {
	const profile = "recorded-failure"
	b, book := recordedBed(t, profile, Args{Policy: "linear"})
	pod := benchPod(1, 0, "")
	b.fail(t, profile, pod)
	r := book.Last(decision.Query{})
	if len(r) != 1 || r[0].Outcome != decision.Unschedulable || r[0].Failure != "no nodes available to schedule pods" {
		t.Errorf("without nodes: %+v", r)
	}
	b.alike(t, profile, 4)
	pod.Spec.NodeSelector = map[string]string{"disk": "none"}
	b.fail(t, profile, pod)
	r = book.Last(decision.Query{})
	if len(r) != 2 || r[0].Nodes != 4 || len(r[0].Refused) != 1 || r[0].Refused[0].Plugin != "NodeAffinity" || r[0].Refused[0].Nodes != 4 ||
		r[0].Profile != profile {
		t.Errorf("%+v", r[0])
	}
}

// An allowance is a share of the time on average, and what is saved up is bounded.
func TestAllowance(t *testing.T) {
	const cost = 3 * time.Millisecond
	for _, c := range []struct {
		share float64
		step  time.Duration // between two decisions
		want  int           // of 10,000
	}{
		{0, time.Second, 0}, {1, time.Microsecond, 10_000}, {0.01, time.Second, 10_000},
		{0.01, time.Millisecond, 34}, // 10 s of time earn 100 ms; the first is on credit
		{0.5, time.Millisecond, 1667},
	} {
		a, now, spent := &allowance{share: c.share}, time.Unix(0, 0), 0
		for range 10_000 {
			if a.open(now) {
				a.spend(cost)
				spent++
			}
			now = now.Add(c.step)
		}
		if spent < c.want-1 || spent > c.want+1 {
			t.Errorf("share %v, every %v: %d, want %d", c.share, c.step, spent, c.want)
		}
	}
	a := &allowance{share: 0.01}
	a.open(time.Unix(0, 0))
	busy := 0
	for i := range 100 { // after a day of idleness
		if now := time.Unix(86_400, int64(i)); a.open(now) {
			a.spend(cost)
			busy++
		}
	}
	if most := int(maxEarned/cost) + 1; busy > most {
		t.Errorf("%d at once, want at most %d", busy, most)
	}
}

// The text of an event is bounded and names the default's choice.
func TestAnnouncement(t *testing.T) {
	margin := 0.25
	long := strings.Repeat("a", 253)
	r := decision.Record{Policy: long, Node: long, Feasible: 12, Best: []decision.Candidate{{}, {}}, RunnerUp: long, Margin: &margin,
		Default: &decision.Default{Candidate: decision.Candidate{Node: "x"}}, Fallback: "panic"}
	if text := announcement(r); len(text) > 1024 || !strings.HasSuffix(text, "the default profile would have chosen x") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if got := announcement(decision.Record{Node: "n"}); got != "n was the only feasible node" {
		t.Error(got)
	}
}

// costModes are ways to record; the first one is not to.
var costModes = []string{"off", "ring", "lines"}

// journalOf opens the file of a mode; nil if it has none.
func journalOf(b *testing.B, mode string) *decision.Journal {
	if mode != "lines" {
		return nil
	}
	j, err := decision.OpenJournal(filepath.Join(b.TempDir(), "d.jsonl"), func(err error, _ uint64) { b.Error(err) })
	fatal.If(b, err)
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

// attempts returns a function that makes the attempt of a number: the filters, the choice, and the end of binding.
func attempts(b *testing.B, nodes int, mode string) func(i int) {
	profile := fmt.Sprint("cost-", nodes, mode)
	book := decision.NewBook(decision.DefaultBookSize, journalOf(b, mode))
	var listeners []decision.Listener
	if mode != costModes[0] {
		listeners = append(listeners, book)
	}
	bed := newBedWith(b, fake.NewClientset(), profile, Args{Checkpoint: untrained(b, 1, nil), Deadline: duration(time.Hour)}, listeners...)
	if mode != costModes[0] {
		bed.recorder.asks.share = 0.01
		WatchFailures(bed.sched, book.Decided)
	}
	bed.alike(b, profile, nodes)
	return func(i int) {
		bound, state, err := bed.attempt(b, profile, benchPod(i, i, ""))
		fatal.If(b, err)
		bed.sched.Profiles[profile].RunPostBindPlugins(bed.ctx, state, bound, bound.Spec.NodeName)
		fatal.If(b, bed.sched.Cache.ForgetPod(bed.log, bound))
	}
}

// BenchmarkRecording compares the CPU time of scheduling attempts, from the filters to the end of binding without the API
// server, with and without recording, in turns in one run. It reports how much more an attempt takes with each way to record, garbage
// collection and writing to the file included, with its standard error, and the time of an attempt without. A real attempt also talks to
// the API server, so recording's share of it is smaller.
func BenchmarkRecording(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			attempt := each.Map(costModes, func(mode string) func(int) { return attempts(b, nodes, mode) })
			const block = 64
			micros := make([][]float64, len(costModes)) // of an attempt, by mode and round
			for n := 0; n < max(b.N, 32*block); n += block {
				for k := range costModes {
					mode := (n/block + k) % len(costModes)
					before := cpuTime()
					for i := range block {
						attempt[mode](n + i)
					}
					micros[mode] = append(micros[mode], 1e6*(cpuTime()-before).Seconds()/block)
				}
			}
			for mode, name := range costModes[1:] {
				more := slices.Clone(micros[mode+1])
				floats.Sub(more, micros[0])
				mean, deviation := stat.MeanStdDev(more, nil)
				b.ReportMetric(mean, name+"-µs-more")
				b.ReportMetric(stat.StdErr(deviation, float64(len(more))), name+"-µs-error")
			}
			b.ReportMetric(stat.Mean(micros[0], nil), "µs/attempt")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
