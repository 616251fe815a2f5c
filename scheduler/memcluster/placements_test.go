package memcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/server"
)

// at returns a time the given seconds after noon.
func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

// daemonOf returns a pod of a DaemonSet.
func daemonOf(name string, cores int) *st.PodWrapper {
	yes := true
	p := pod(name, cores)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: &yes}}
	return p
}

// A removed node takes along the pods that the profile placed there, in the order of their creation. Bound pods stay.
func TestLose(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("bound", 1).Node("a").Obj())
	for _, p := range []*st.PodWrapper{pod("late", 1).CreationTimestamp(at(9)), pod("early", 1).CreationTimestamp(at(3))} {
		o.Wait(p.Obj())
	}
	settle(t, o)
	f.told = nil
	o.lose("b")
	o.lose("a")
	equal(t, "told", f.told, []string{"lost early a", "lost late a"})
	equal(t, "waiting", names(o.Waiting), []string{"early", "late"})
	if o.Running["bound"] == nil || len(o.Running) != 1 || len(o.Chosen) != 0 || !o.freed || o.Waiting[0].Spec.NodeName != "" {
		t.Errorf("%d run, %d chosen", len(o.Running), len(o.Chosen))
	}
}

// An update counts for running and waiting pods, and leaves the node as it is.
func TestUpdate(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("runs", 4).Node("a").Obj())
	o.Wait(pod("waits", 9).Obj())
	settle(t, o)
	o.Update(pod("stranger", 1).Obj())
	if o.Has("stranger") || o.freed {
		t.Error("an unknown pod counts")
	}
	o.Update(pod("waits", 2).Obj())
	if o.freed {
		t.Error("a waiting pod frees no room")
	}
	o.Update(pod("runs", 2).Node("elsewhere").Obj())
	if !o.freed || o.Running["runs"].Spec.NodeName != "a" {
		t.Errorf("freed: %v, it runs on %q", o.freed, o.Running["runs"].Spec.NodeName)
	}
	settle(t, o)
	equal(t, "told", f.told, []string{"placed waits a"})
	if start := o.Running["waits"].Status.StartTime; start == nil || !start.Time.Equal(noon) {
		t.Errorf("it started at %v", start)
	}
}

// Remove takes pods away that run, wait, or are unknown. Only the first frees room.
func TestRemove(t *testing.T) {
	o, _ := placements(t, "a")
	o.Fix(pod("runs", 1).Node("a").Obj())
	o.Wait(pod("waits", 9).Obj())
	for _, c := range []struct {
		uid   string
		freed bool
	}{{"waits", false}, {"nobody", false}, {"runs", true}} {
		o.freed = false
		if o.Remove(pod(c.uid, 1).Obj().UID); o.freed != c.freed || o.Has(pod(c.uid, 1).Obj().UID) {
			t.Errorf("%s: freed is %v", c.uid, o.freed)
		}
	}
	if nodes, err := o.Nodes(); err != nil || nodes[0].Requested.MilliCPU != 0 {
		t.Errorf("%v, %v", nodes, err)
	}
}

// The preempted pods, by the priorities and nodes of pods.
func TestPreempt(t *testing.T) {
	never := v1.PreemptNever
	low := func(name, node string) *st.PodWrapper { return pod(name, 3).Priority(1).Node(node).StartTime(at(0)) }
	for _, c := range []struct {
		name  string
		runs  []*st.PodWrapper
		waits *st.PodWrapper
		off   bool
		told  []string
		left  []string // waiting
	}{
		{"lower priority", []*st.PodWrapper{low("low", "a")}, pod("high", 3).Priority(5), false, []string{"preempted low a", "placed high a"},
			[]string{"low"}},
		{"preemption is off", []*st.PodWrapper{low("low", "a")}, pod("high", 3).Priority(5), true, nil, []string{"high"}},
		{"equal priority", []*st.PodWrapper{low("low", "a")}, pod("high", 3).Priority(1), false, nil, []string{"high"}},
		{"never", []*st.PodWrapper{low("low", "a")}, pod("high", 3).Priority(5).PreemptionPolicy(never), false, nil, []string{"high"}},
		{"it would not fit", []*st.PodWrapper{low("low", "a")}, pod("high", 5).Priority(5), false, nil, []string{"high"}},
		{"the lowest priority", []*st.PodWrapper{low("mid", "a").Priority(3), low("low", "b")}, pod("high", 3).Priority(5), false,
			[]string{"preempted low b", "placed high b"}, []string{"low"}},
		{
			"the lowest sum",
			[]*st.PodWrapper{
				low("a1", "a"), pod("a2", 1).Priority(1).Node("a").StartTime(at(0)), low("b1", "b"),
				pod("b2", 1).Priority(0).Node("b").StartTime(at(0)),
			},
			pod("high", 4).Priority(5), false, []string{"preempted b1 b", "preempted b2 b", "placed high b"}, []string{"b1", "b2"},
		},
		{
			"the fewest", []*st.PodWrapper{pod("a1", 2).Priority(1).Node("a").StartTime(at(0)),
				pod("a2", 2).Priority(1).Node("a").StartTime(at(0)), low("b1", "b")},
			pod("high", 4).Priority(5), false, []string{"preempted b1 b", "placed high b"}, []string{"b1"},
		},
		{"the latest", []*st.PodWrapper{low("a1", "a"), low("b1", "b").StartTime(at(7))}, pod("high", 3).Priority(5), false,
			[]string{"preempted b1 b", "placed high b"}, []string{"b1"}},
		{"by name", []*st.PodWrapper{low("b1", "b"), low("a1", "a")}, pod("high", 3).Priority(5), false,
			[]string{"preempted a1 a", "placed high a"}, []string{"a1"}},
		{"a DaemonSet's", []*st.PodWrapper{{Pod: *daemonOf("agent", 3).Node("a").Obj()}},
			pod("high", 3).Priority(5).NodeSelector(map[string]string{v1.LabelHostname: "a"}), false,
			[]string{"preempted agent a", "placed high a"}, []string{"agent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, f := placements(t, "a", "b")
			o.Preempts = !c.off
			full := pod("full", 4).Priority(100).Node("b").Obj()
			if !slices.ContainsFunc(c.runs, func(p *st.PodWrapper) bool { return p.Spec.NodeName == "b" }) {
				o.Fix(full)
			}
			for _, p := range c.runs {
				o.Fix(p.Obj())
			}
			o.freed = false
			o.Wait(c.waits.Obj())
			settle(t, o)
			equal(t, "told", f.told, c.told)
			equal(t, "waiting", names(o.Waiting), c.left)
		})
	}
}

// A preempted pod of a DaemonSet comes back on its own node only.
func TestPreemptedDaemon(t *testing.T) {
	o, f := placements(t, "a", "b")
	o.Preempts = true
	o.Fix(daemonOf("agent", 3).Node("a").Obj())
	o.Fix(pod("full", 4).Priority(100).Node("b").Obj())
	o.Wait(pod("high", 3).Priority(5).Obj())
	settle(t, o)
	o.Remove("full") // room on the other node
	settle(t, o)
	equal(t, "waiting", names(o.Waiting), []string{"agent"})
	o.Remove("high")
	settle(t, o)
	equal(t, "told", f.told, []string{"preempted agent a", "placed high a", "placed agent a"})
	if _, chosen := o.Chosen["agent"]; chosen {
		t.Error("the profile chose the node of a DaemonSet's pod")
	}
}

// Choose, Admits and After agree on where a pod fits and what it costs there.
func TestChoose(t *testing.T) {
	o, _ := placements(t, "a", "b")
	o.Fix(pod("old", 3).Node("a").Obj())
	p := pod("new", 2).Obj()
	ch, err := o.Choose(t.Context(), p)
	if err != nil || ch.Node != "b" || ch.Feasible != 1 || ch.Refused["a"] != "Insufficient cpu" {
		t.Fatalf("%+v, %v", ch, err)
	}
	for node, want := range map[string]string{"a": "Insufficient cpu", "b": "", "c": "the node is gone"} {
		if why, err := o.Admits(t.Context(), p, node); err != nil || why != want {
			t.Errorf("%s: %q, %v", node, why, err)
		}
	}
	before := fatal.Value(o.Cost())(t)
	then, known := o.After(p, "b")
	if _, there := o.After(p, "c"); there || !known {
		t.Error("a node that is not there has a cost")
	}
	if now, err := o.Cost(); err != nil || now != before {
		t.Errorf("asking changed the cost from %v to %v (%v)", before, now, err)
	}
	o.Fix(On(p, "b"))
	if now, err := o.Cost(); err != nil || now != then {
		t.Errorf("the cost is %v, and After said %v (%v)", now, then, err)
	}
	if two, err := o.Choose(t.Context(), pod("small", 1).Obj()); err != nil || two.Feasible != 2 || two.RunnerUp == "" ||
		two.RunnerUp == two.Node || two.Score < two.RunnerUpScore || ch.RunnerUp != "" {
		t.Errorf("%+v, %v", two, err)
	}
	if o.Alike("a", "b") {
		t.Error("nodes with different requests are alike")
	}
}

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

// noon is the time of the tests' clock.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// placements returns a cluster of nodes with 4 cores, whose profile packs, and its follower.
func placements(t testing.TB, nodes ...string) (*Placements, *follower) {
	t.Helper()
	profile := fatal.Value(server.ProfileNamed("most-allocated"))(t)
	decoded := fatal.Value(server.Config{Profiles: []server.Profile{profile}, QPS: 1}.Decode())(t)
	client, err := kubernetes.NewForConfig(&rest.Config{}) // it is never asked
	fatal.If(t, err)
	c := fatal.Value(New(t.Context(), Config{
		Client: client, Shared: kuberelease.Informers(client), Profile: decoded.Profiles[0],
		Objective: objective.Balance{}, Clock: clocktesting.NewFakePassiveClock(noon), Seed: 1,
	}))(t)
	for _, n := range nodes {
		c.AddNode(c.log, st.MakeNode().Name(n).Label(v1.LabelHostname, n).
			Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "16Gi", "pods": "110"}).Obj())
	}
	o, f := NewPlacements(c), &follower{}
	o.Follow = f
	return o, f
}

// follower writes down its calls.
type follower struct{ told []string }

func (f *follower) Placed(p *v1.Pod, _ Choice) { f.note("placed", p) }
func (f *follower) Preempted(p *v1.Pod)        { f.note("preempted", p) }
func (f *follower) Lost(p *v1.Pod)             { f.note("lost", p) }
func (f *follower) Refused(p *v1.Pod, _ error) { f.note("refused", p) }

func (f *follower) note(what string, p *v1.Pod) {
	f.told = append(f.told, fmt.Sprintf("%s %s %s", what, p.Name, p.Spec.NodeName))
}

// pod returns a pod with containers of its own, made at noon.
func pod(name string, cores int) *st.PodWrapper {
	return st.MakePod().Namespace("shop").Name(name).UID(name).CreationTimestamp(at(0)).
		Req(map[v1.ResourceName]string{"cpu": fmt.Sprint(cores)})
}

// replicas returns pods that share their containers.
func replicas(of *v1.Pod, names ...string) (out []*v1.Pod) {
	for _, n := range names {
		p := *of
		p.Name, p.UID = n, types.UID(n)
		out = append(out, &p)
	}
	return out
}

// settle tries the waiting pods until nothing changes.
func settle(t testing.TB, o *Placements) {
	t.Helper()
	for range 100 {
		if o.settled() {
			return
		}
		fatal.If(t, o.Retry(t.Context(), 1000))
	}
	t.Fatal("it does not settle")
}

// names returns the waiting pods in their order.
func names(pods []*v1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// New pods are tried by priority, and among equals by their arrival.
func TestOrder(t *testing.T) {
	o, f := placements(t, "a")
	for _, p := range []*st.PodWrapper{pod("one", 1), pod("two", 1).Priority(5), pod("three", 1), pod("four", 1).Priority(9),
		pod("five", 1).Priority(5)} {
		o.Wait(p.Obj())
	}
	settle(t, o)
	equal(t, "told", f.told, []string{"placed four a", "placed two a", "placed five a", "placed one a"})
	equal(t, "waiting", names(o.Waiting), []string{"three"})
}

// After room was freed, all waiting pods have a turn again, and new ones join them in the order of priorities.
func TestFreedRoom(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("old", 4).Node("a").Obj())
	for _, p := range []*st.PodWrapper{pod("low", 2), pod("high", 2).Priority(5)} {
		o.Wait(p.Obj())
	}
	settle(t, o)
	if len(f.told) != 0 || o.freed {
		t.Fatalf("%q, freed: %v", f.told, o.freed)
	}
	o.Remove("old")
	o.Wait(pod("higher", 1).Priority(9).Obj())
	settle(t, o)
	equal(t, "told", f.told, []string{"placed higher a", "placed high a"})
	equal(t, "waiting", names(o.Waiting), []string{"low"})
}

// A round ends after as many failures as given, and the next call goes on with it.
func TestFailures(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("old", 3).Node("a").Obj())
	for i := range 3 {
		o.Wait(pod(fmt.Sprint("big-", i), 2).Obj())
	}
	o.Wait(pod("small", 1).Obj())
	for i, placed := range []int{0, 1} {
		if err := o.Retry(t.Context(), 2); err != nil || len(f.told) != placed {
			t.Errorf("call %d: %q, %v", i, f.told, err)
		}
	}
	if !o.settled() {
		t.Error("the round has not ended")
	}
}

// Pods that share their containers fail together, as one failure. Pods of DaemonSets do not.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []*v1.Pod
		left int // turns after two failures
	}{
		{"replicas", replicas(pod("web", 3).Obj(), "web-1", "web-2", "web-3"), 0},
		{"two templates", append(replicas(pod("web", 3).Obj(), "web-1", "web-2", "web-3"), replicas(pod("db", 3).Obj(), "db-1", "db-2")...), 1},
		{"own containers", []*v1.Pod{pod("a-1", 3).Obj(), pod("b-1", 3).Obj(), pod("c-1", 3).Obj()}, 1},
		{"DaemonSet", replicas(daemonOf("agent", 3).Obj(), "agent-1", "agent-2", "agent-3"), 1},
	} {
		o, f := placements(t, "a")
		o.Fix(pod("old", 2).Node("a").Obj())
		for _, p := range c.pods {
			o.Wait(p)
		}
		if err := o.Retry(t.Context(), 2); err != nil || len(f.told) != 0 || len(o.round) != c.left {
			t.Errorf("%s: %d turns are left, %q, %v", c.name, len(o.round), f.told, err)
		}
	}
}

// A pod that the plugins cannot handle no longer waits, and the others are tried.
func TestRefused(t *testing.T) {
	o, f := placements(t, "a")
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	o.Wait(pod("odd", 1).Priority(5).SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule, odd, nil, nil, nil, nil).Obj())
	o.Wait(pod("good", 1).Obj())
	settle(t, o)
	equal(t, "told", f.told, []string{"refused odd ", "placed good a"})
	if len(o.Waiting) != 0 || o.Has("odd") || len(o.triggers) != 0 {
		t.Errorf("%q wait, %d triggers", names(o.Waiting), len(o.triggers))
	}
}

// Retry returns the error of its context, and the pod waits on.
func TestRetryInterrupted(t *testing.T) {
	o, _ := placements(t, "a")
	o.Wait(pod("one", 1).Obj())
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := o.Retry(ctx, 1); !errors.Is(err, why) || !o.Has("one") {
		t.Errorf("%v", err)
	}
}

// A pod that ended while it had a turn is skipped.
func TestEndedInRound(t *testing.T) {
	o, f := placements(t, "a")
	o.Wait(pod("one", 1).Obj())
	o.Wait(pod("two", 1).Obj())
	o.Remove("one")
	settle(t, o)
	equal(t, "told", f.told, []string{"placed two a"})
}

func labelled(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// A placed pod wakes the pods that must be near it or spread together with it, and no others.
func TestWakes(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	web := func() *st.PodWrapper { return pod("web", 1).Label("app", "web").Node("a") }
	for _, c := range []struct {
		name   string
		waits  *st.PodWrapper
		placed *st.PodWrapper
		wakes  bool
	}{
		{"nobody waits", nil, web(), false},
		{"no trigger", pod("x", 9), web(), false},
		{"affinity", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq), web(), true},
		{"affinity in another namespace", pod("x", 9).Namespace("other").PodAffinity(v1.LabelHostname, labelled("web"),
			st.PodAffinityWithRequiredReq), web(), true},
		{"affinity to others", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("db"), st.PodAffinityWithRequiredReq), web(), false},
		{"preferred affinity", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithPreferredReq), web(), false},
		{"affinity without a selector", pod("x", 9).PodAffinity(v1.LabelHostname, nil, st.PodAffinityWithRequiredReq), web(), false},
		{"affinity to all", pod("x", 9).PodAffinity(v1.LabelHostname, &metav1.LabelSelector{}, st.PodAffinityWithRequiredReq), web(), true},
		{"affinity that cannot be read", pod("x", 9).PodAffinity(v1.LabelHostname, odd, st.PodAffinityWithRequiredReq), web(), false},
		{"anti-affinity", pod("x", 9).PodAntiAffinity(v1.LabelHostname, labelled("web"), st.PodAntiAffinityWithRequiredReq), web(), false},
		{"spreading", pod("x", 9).SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule, labelled("web"), nil, nil, nil, nil), web(), true},
		{"spreading in another namespace", pod("x", 9).Namespace("other").SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule,
			labelled("web"), nil, nil, nil, nil), web(), false},
		{"preferred spreading", pod("x", 9).SpreadConstraint(1, v1.LabelHostname, v1.ScheduleAnyway, labelled("web"), nil, nil, nil, nil),
			web(), false},
	} {
		o, _ := placements(t, "a", "b")
		if c.waits != nil {
			o.Wait(c.waits.Obj())
		}
		o.Fix(c.placed.Obj())
		if o.freed != c.wakes {
			t.Errorf("%s: freed is %v", c.name, o.freed)
		}
	}
}

// Replicas share one trigger, no matter how they come to wait. It goes with the last of them.
func TestTriggers(t *testing.T) {
	o, _ := placements(t, "a")
	near := pod("near", 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj()
	pods := replicas(near, "near-1", "near-2", "near-3")
	count := func(step string, triggers, waiting int) {
		t.Helper()
		pods := 0
		for _, t := range o.triggers {
			pods += t.pods
		}
		if len(o.triggers) != triggers || pods != waiting {
			t.Errorf("%s: %d triggers of %d pods, want %d of %d", step, len(o.triggers), pods, triggers, waiting)
		}
	}
	for _, p := range pods {
		o.Wait(p)
	}
	count("wait", 1, 3)
	o.Remove("near-1")
	count("remove", 1, 2)
	settle(t, o)
	o.Fix(pod("web", 1).Label("app", "web").Node("a").Obj())
	settle(t, o)
	count("placed", 0, 0)
	o.lose("a")
	count("lost", 1, 2)
	// The same pod with another selector, and with none.
	changed := pod("near-2", 1).PodAffinity(v1.LabelHostname, labelled("db"), st.PodAffinityWithRequiredReq).Obj()
	o.Update(changed)
	count("updated", 2, 2)
	if o.freed = false; o.wakes(pod("db", 1).Label("app", "db").Obj()) != true {
		t.Error("the new selector does not count")
	}
	o.Update(pod("near-2", 1).Obj())
	count("updated again", 1, 1)
	if o.wakes(pod("db", 1).Label("app", "db").Obj()) {
		t.Error("the old selector counts")
	}
	o.Remove("near-2")
	o.Remove("near-3")
	count("end", 0, 0)
}

// Pods without containers and pods of DaemonSets have triggers of their own.
func TestOwnTriggers(t *testing.T) {
	o, _ := placements(t, "a")
	bare := func(name string) *v1.Pod {
		p := pod(name, 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj()
		p.Spec.Containers = nil
		return p
	}
	o.Wait(bare("one"))
	o.Wait(bare("two"))
	for _, p := range replicas(daemonOf("agent", 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj(),
		"agent-1", "agent-2") {
		o.Wait(p)
	}
	if len(o.triggers) != 4 {
		t.Errorf("%d triggers", len(o.triggers))
	}
	o.Remove("one")
	if len(o.triggers) != 3 || !slices.Equal(names(o.Waiting), []string{"two", "agent-1", "agent-2"}) {
		t.Errorf("%d triggers, %q", len(o.triggers), names(o.Waiting))
	}
}
