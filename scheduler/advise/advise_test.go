package advise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	testclock "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

const patience = time.Minute

var capacity = map[v1.ResourceName]string{v1.ResourceCPU: "16", v1.ResourceMemory: "64Gi", v1.ResourcePods: "110"}

func pod(name string) *st.PodWrapper {
	return st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName(server.DefaultProfile).
		Req(map[v1.ResourceName]string{v1.ResourceCPU: "2", v1.ResourceMemory: "4Gi"})
}

// newAdvisor reads a cluster of three nodes, with the most pods on b, and further objects.
func newAdvisor(t *testing.T, p server.Profile, now *testclock.FakePassiveClock, more ...runtime.Object) *Advisor {
	t.Helper()
	objects := more
	for i, name := range []string{"a", "b", "c"} {
		objects = append(objects, st.MakeNode().Name(name).Capacity(capacity).Label("name", name).Obj())
		for j := range []int{1, 3, 0}[i] {
			objects = append(objects, pod(fmt.Sprintf("%s-%d", name, j)).Node(name).Obj())
		}
	}
	p.SchedulerName = server.DefaultProfile
	a := fatal.Value(New(t.Context(), Config{Client: fake.NewClientset(objects...), Profile: p, Promise: time.Second, Clock: now}))(t)
	fatal.UntilTrue(t, "the cluster to be read", a.Synced)
	return a
}

func newClock() *testclock.FakePassiveClock { return testclock.NewFakePassiveClock(time.Unix(1e9, 0)) }

func best(t *testing.T, a *Advisor, p *v1.Pod, names ...string) string {
	t.Helper()
	ranked, err := a.Rank(t.Context(), p, names)
	if err != nil || len(ranked) != len(names) {
		t.Fatalf("%v, %v", ranked, err)
	}
	out := ""
	for i, r := range ranked {
		if r.Node != names[i] {
			t.Errorf("node %d is %s, want %s", i, r.Node, names[i])
		}
		if r.Score == 100 {
			out += r.Node
		}
	}
	return out
}

// Rank lets the profile's decider choose among the named nodes.
func TestRank(t *testing.T) {
	for policy, want := range map[string][2]string{"most-allocated": {"b", "a"}, "kube-scheduler": {"c", "ca"}} {
		a := newAdvisor(t, server.Profile{Args: plugin.Args{Policy: policy}}, newClock())
		if got := best(t, a, pod("x").Obj(), "a", "b", "c"); got != want[0] {
			t.Errorf("%s takes %s, want %s", policy, got, want[0])
		}
		if got := best(t, a, pod("y").Obj(), "c", "new", "a"); got != want[1] {
			t.Errorf("%s takes %s, want %s: b is not among the nodes, new is unknown, and x counts on its node", policy, got, want[1])
		}
	}
}

// A manifest's preferences come before the decider.
func TestPreferencesComeFirst(t *testing.T) {
	prefers := pod("x").Obj()
	wish := v1.NodeSelectorRequirement{Key: "name", Operator: v1.NodeSelectorOpIn, Values: []string{"c"}}
	prefers.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
		{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{wish}}},
	}}}
	for mode, want := range map[preference.Mode]string{preference.First: "c", preference.Off: "b"} {
		a := newAdvisor(t, server.Profile{Args: plugin.Args{Policy: "most-allocated", Preferences: mode}}, newClock())
		if got := best(t, a, prefers, "a", "b", "c"); got != want {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
}

// A pod counts on the node that was best until the time of the promise is over, so that the next pod sees it. Asking again
// about the same pod does not count it twice.
func TestPromise(t *testing.T) {
	now := newClock()
	a := newAdvisor(t, server.Profile{Args: plugin.Args{Policy: "kube-scheduler"}}, now)
	pods := func() (int, int) {
		s, err := a.State(t.Context())
		if err != nil || !s.Synced || s.Nodes != 3 || s.Policy != "kube-scheduler" {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Pods, s.Promised
	}
	if got := best(t, a, pod("x").Obj(), "a", "b", "c"); got != "c" {
		t.Fatal(got)
	}
	best(t, a, pod("x").Obj(), "a", "b", "c")
	if n, promised := pods(); n != 5 || promised != 1 {
		t.Errorf("%d pods, %d promised, want 5 and 1", n, promised)
	}
	if got := best(t, a, pod("y").Obj(), "a", "b", "c"); got != "ac" {
		t.Errorf("y finds %q best, want a and c, which have a pod each", got)
	}
	now.SetTime(now.Now().Add(2 * time.Second))
	if n, promised := pods(); n != 4 || promised != 0 {
		t.Errorf("later: %d pods, %d promised, want 4 and 0", n, promised)
	}
}

// Suggest ranks the nodes on which upstream's filters leave the pod, explains the refusals of the others, and changes nothing.
func TestSuggest(t *testing.T) {
	tainted := st.MakeNode().Name("tainted").Capacity(capacity).
		Taints([]v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}).Obj()
	small := st.MakeNode().Name("small").Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "1", v1.ResourcePods: "10"}).Obj()
	a := newAdvisor(t, server.Profile{Args: plugin.Args{Variant: "gnn", Deadline: metav1.Duration{Duration: patience}}}, newClock(), tainted,
		small)
	for range 2 {
		got := fatal.Value(a.Suggest(t.Context(), pod("").Obj()))(t)
		if len(got.Nodes) != 3 || got.Nodes[0].Score != 100 || got.Fingerprint == "" {
			t.Fatalf("%+v", got)
		}
		for i, n := range got.Nodes {
			if len(n.Reasons) != 2 || i > 0 && n.Score > got.Nodes[i-1].Score {
				t.Errorf("%+v", n)
			}
			if w := n.CPU.WithPod - n.CPU.Now; w < 0.124 || w > 0.126 {
				t.Errorf("%s: the pod takes %v of the CPU, want 2 of 16", n.Node, w)
			}
		}
		if len(got.Refusals) != 2 || got.Refusals[0].Count != 1 {
			t.Errorf("refusals %+v", got.Refusals)
		}
	}
	if s, err := a.State(t.Context()); err != nil || s.Pods != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	nowhere := pod("n").NodeSelector(map[string]string{"name": "none"}).Obj()
	if got, err := a.Suggest(t.Context(), nowhere); err != nil || len(got.Nodes) != 0 || len(got.Refusals) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Without a network, and when it takes too long, there is an error and not a guess.
func TestUndecided(t *testing.T) {
	for want, args := range map[string]plugin.Args{
		"no_model": {Variant: "gnn", Checkpoint: t.TempDir() + "/none"},
		"deadline": {Variant: "gnn", Deadline: metav1.Duration{Duration: time.Nanosecond}},
	} {
		a := newAdvisor(t, server.Profile{Args: args}, newClock())
		_, err := a.Rank(t.Context(), pod("x").Obj(), []string{"a", "b"})
		var undecided *plugin.Undecided
		if !errors.As(err, &undecided) || undecided.Reason != want {
			t.Errorf("rank: %v, want %s", err, want)
		}
		if _, err := a.Suggest(t.Context(), pod("x").Obj()); !errors.As(err, &undecided) {
			t.Errorf("suggest: %v", err)
		}
		if s, err := a.State(t.Context()); err != nil || s.Promised != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// A caller that waits for others gives up at its deadline.
func TestTurn(t *testing.T) {
	a := newAdvisor(t, server.Profile{Args: plugin.Args{Policy: "kube-scheduler"}}, newClock())
	a.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Rank(ctx, pod("x").Obj(), []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-a.turn
	if _, err := a.Rank(ctx, pod("x").Obj(), []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for the answer: %v", err)
	}
	if s, err := a.State(t.Context()); err != nil || s.Promised != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Pods are refused if no scheduler would assign their GPU devices.
func TestAdmit(t *testing.T) {
	gpus := func(name string, amounts map[v1.ResourceName]string, model string) *v1.Node {
		amounts[v1.ResourceCPU], amounts[v1.ResourcePods] = "16", "110"
		return st.MakeNode().Name(name).Capacity(amounts).Label("alibabacloud.com/gpu-card-model", model).Obj()
	}
	nodes := []runtime.Object{
		gpus("t4", map[v1.ResourceName]string{"nvidia.com/gpu": "2"}, "T4"),
		gpus("a10", map[v1.ResourceName]string{"nvidia.com/gpu": "4"}, "A10"),
		gpus("shared", map[v1.ResourceName]string{"nvidia.com/gpu": "4", "alibabacloud.com/gpu-count": "4", "alibabacloud.com/gpu-milli": "4000"},
			"T4"),
	}
	a := newAdvisor(t, server.Profile{Args: plugin.Args{Policy: "kube-scheduler"}}, newClock(), nodes...)
	all := []string{"t4", "a10", "shared", "unknown"}
	whole := func(n string) *v1.Pod { return pod("x").Req(map[v1.ResourceName]string{"nvidia.com/gpu": n}).Obj() }
	model := whole("1")
	model.Annotations = map[string]string{"alibabacloud.com/gpu-card-model": "A10"}
	share, wrong := pod("x").Obj(), pod("x").Obj()
	share.Annotations = map[string]string{"alibabacloud.com/gpu-milli": "460"}
	wrong.Annotations = map[string]string{"alibabacloud.com/gpu-milli": strings.Repeat("9", 100_000)}
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		refused int
		why     map[string]string
	}{
		{"no GPU", pod("x").Obj(), 0, nil},
		{"whole", whole("2"), 1, map[string]string{"shared": refuseShared}},
		{"many", whole("3"), 2, map[string]string{"t4": refuseCount}},
		{"model", model, 2, map[string]string{"t4": refuseModel}},
		{"share", share, 4, map[string]string{"unknown": refuseShare}},
		{"contradiction", wrong, 4, nil},
	} {
		refused, err := a.Admit(t.Context(), c.pod, all)
		if err != nil || len(refused) != c.refused {
			t.Errorf("%s: %v, %v", c.name, refused, err)
		}
		for node, want := range c.why {
			if refused[node] != want {
				t.Errorf("%s: %s is refused because %q, want %q", c.name, node, refused[node], want)
			}
		}
		for _, why := range refused {
			if len(why) > 400 {
				t.Errorf("%s: %d bytes", c.name, len(why))
			}
		}
	}
}

// A profile that cannot advise is an error.
func TestNewRefuses(t *testing.T) {
	for name, args := range map[string]plugin.Args{
		"blended": {Variant: "gnn", Preferences: preference.Blend}, "upstream's": {Variant: server.DefaultProfile}, "unknown": {Variant: "none"},
	} {
		p := server.Profile{SchedulerName: server.DefaultProfile, Args: args}
		if _, err := New(t.Context(), Config{Client: fake.NewClientset(), Profile: p, Clock: newClock()}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
