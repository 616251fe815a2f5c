package plugin

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
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
	var nodes []string
	for _, c := range d.Best {
		nodes = append(nodes, c.Node)
	}
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

// testStep is a valid step of the learner on an empty node.
func (l *learner) testStep(number uint64) experience.Step {
	g := &graph.Graph{Zones: 1}
	g.Resize(1)
	g.PodX, g.ClusterX = make([]float32, feature.Default().Widths.Pod), make([]float32, feature.Default().Widths.Cluster)
	g.ResizeCandidates(1)
	return experience.Step{Actor: l.actor, Epoch: l.epoch, Number: number, State: g}
}
