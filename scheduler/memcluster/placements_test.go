package memcluster

import (
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
	before, err := o.Cost()
	if err != nil {
		t.Fatal(err)
	}
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
	profile, err := server.ProfileNamed("most-allocated")
	fatal.If(t, err)
	decoded, err := server.Config{Profiles: []server.Profile{profile}, QPS: 1}.Decode()
	fatal.If(t, err)
	client, err := kubernetes.NewForConfig(&rest.Config{}) // it is never asked
	fatal.If(t, err)
	c, err := New(t.Context(), Config{
		Client: client, Shared: kuberelease.Informers(client), Profile: decoded.Profiles[0],
		Objective: objective.Balance{}, Clock: clocktesting.NewFakePassiveClock(noon), Seed: 1,
	})
	fatal.If(t, err)
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
