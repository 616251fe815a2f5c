package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

// bench is a Watcher that is driven by hand.
type bench struct {
	*Watcher
	t     testing.TB
	clock *testclock.FakeClock
}

// newBench watches the default scheduler for a policy of ours, on the given nodes.
func newBench(t testing.TB, policy string, nodes ...string) *bench {
	return recordingBench(t, plugin.Recording{}, policy, nodes...)
}

// recordingBench is newBench with a book of decisions.
func recordingBench(t testing.TB, recording plugin.Recording, policy string, nodes ...string) *bench {
	t.Helper()
	p := server.Profile{SchedulerName: server.DefaultProfile, Args: plugin.Args{Policy: policy}}
	decoded, err := server.Config{Profiles: []server.Profile{p}, QPS: 1}.Decode()
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	b := &bench{t: t, clock: testclock.NewFakeClock(time.Unix(1e9, 0))}
	b.Watcher, err = New(ctx, Config{
		Client: fake.NewClientset(), Profile: decoded.Profiles[0], Name: policy, Of: []string{server.DefaultProfile},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}, Block: time.Minute, Limits: DefaultLimits, Clock: b.clock,
		Recording: recording,
	})
	fatal.If(t, err)
	for _, n := range nodes {
		b.queue.put(event{now: node(n), initial: true})
	}
	b.start(ctx)
	return b
}

func node(name string) *v1.Node {
	return st.MakeNode().Name(name).Label(v1.LabelHostname, name).
		Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "8", v1.ResourceMemory: "16Gi", v1.ResourcePods: "10"}).Obj()
}

func pod(name string) *st.PodWrapper {
	return st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName(server.DefaultProfile).
		Req(map[v1.ResourceName]string{v1.ResourceCPU: "2", v1.ResourceMemory: "4Gi"})
}

// happens puts an event and works it off.
func (b *bench) happens(e event) {
	b.t.Helper()
	b.queue.put(e)
	b.work(b.t.Context(), b.queue.take())
	if b.counts.Errors > 0 {
		b.t.Fatalf("%d errors", b.counts.Errors)
	}
}

// binds lets the other scheduler place a pod.
func (b *bench) binds(p *v1.Pod, node string) *v1.Pod {
	b.t.Helper()
	bound := memcluster.On(p, node)
	b.happens(event{pod: p})
	b.happens(event{old: p, pod: bound})
	return bound
}

func (b *bench) is(result outcome, n int) {
	b.t.Helper()
	if got := b.counts.Results[result]; got != n {
		b.t.Errorf("%s: %d, want %d of %+v", result, got, n, b.counts)
	}
}

// The profile decides on the state before each binding, even if later bindings wait in the queue already.
func TestDecidesOnTheStateBefore(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b", "c")
	first, second, third := pod("1").Obj(), pod("2").Obj(), pod("3").Obj()
	for i, p := range []*v1.Pod{first, second, third} {
		b.queue.put(event{pod: p})
		b.queue.put(event{old: p, pod: memcluster.On(p, []string{"a", "b", "a"}[i])})
	}
	b.work(t.Context(), b.queue.take())
	b.is(different, 1) // 2 would have gone to a, beside 1
	if n := b.counts.Results; n[same]+n[equal] != 2 {
		t.Errorf("%v: the empty nodes are alike, and of a and b with a pod each, both are best", n)
	}
	if g := b.gains; g.Worse != 1 || g.Better != 0 {
		t.Errorf("%+v: packing is worse for balance", g)
	}
	r := b.Report()
	if r.Counts.Compared != 3 || r.Counts.Skewed != 0 || r.Verdict.Answer != notYet || r.OneStep.Mean >= 0 {
		t.Errorf("%+v", r)
	}
}

// The cluster in memory takes the profile's choices, and the pods leave it when they really end.
func TestOurs(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b", "c")
	var all []*v1.Pod
	for i, name := range []string{"a", "b", "c"} {
		all = append(all, b.binds(pod(fmt.Sprint(i)).Obj(), name))
	}
	home := b.ours.Running["0"].Spec.NodeName
	for uid, p := range b.ours.Running {
		if p.Spec.NodeName != home {
			t.Errorf("%s is on %s, the policy packs on %s", uid, p.Spec.NodeName, home)
		}
	}
	b.clock.Step(2 * time.Minute)
	b.work(t.Context(), nil)
	// Theirs has a pod of 1/4 on every node, ours three on one of three: fractions 3/4, 0, 0.
	want := 0.3535533905932738
	if w := b.blocks.all(); w.Theirs > 1e-9 || w.Ours < want-1e-9 || w.Ours > want+1e-9 || w.Seconds != 120 {
		t.Errorf("%+v, want a cost of %v", w, want)
	}
	for _, p := range all {
		b.happens(event{old: p})
	}
	if len(b.ours.Running) != 0 || len(b.ours.Chosen) != 0 {
		t.Errorf("%v are left", b.ours.Running)
	}
	if cost, err := b.ours.Cost(); err != nil || cost != 0 {
		t.Errorf("cost %v, %v", cost, err)
	}
}

// A pod that fits nowhere waits in the cluster in memory until there is room. A pod that the other scheduler found no node
// for is tried at that moment.
func TestWaiting(t *testing.T) {
	b := newBench(t, "most-allocated", "a")
	big := func(name string) *v1.Pod { return pod(name).Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Obj() }
	unschedulable := func(p *v1.Pod) *v1.Pod {
		c := *p
		c.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		return &c
	}
	first := b.binds(big("first"), "a")
	second := big("second")
	b.happens(event{pod: second})
	if len(b.ours.Waiting) != 0 || len(b.waiting) != 0 {
		t.Fatal("nobody has tried it yet")
	}
	failed := unschedulable(second)
	b.happens(event{old: second, pod: failed})
	b.clock.Step(time.Minute)
	b.work(t.Context(), nil)
	if w := b.blocks.all(); w.OursWaiting != 1 || w.TheirsWaiting != 1 {
		t.Errorf("%+v", w)
	}
	b.happens(event{old: first})
	if b.ours.Running["second"] == nil || len(b.ours.Waiting) != 0 {
		t.Fatalf("there is room: %+v", b.ours.Waiting)
	}
	b.happens(event{old: failed, pod: memcluster.On(failed, "a")})
	if len(b.waiting) != 0 || len(b.ours.Running) != 1 || b.counts.Waited != 1 {
		t.Errorf("%v, %v", b.waiting, b.ours.Running)
	}
}

// A pod that waits when watching begins takes no room of running pods, in any order of the first lists.
func TestWaitsAtTheBeginning(t *testing.T) {
	b := newBench(t, "most-allocated")
	waits := pod("waits").Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Obj()
	waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	runs := pod("runs").UID("1").Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Node("a").Obj()
	for _, e := range []event{{now: node("a"), initial: true}, {pod: waits, initial: true}, {pod: runs, initial: true}} {
		b.queue.put(e)
	}
	b.start(t.Context())
	if len(b.ours.Running) != 1 || len(b.ours.Waiting) != 1 || b.ours.Waiting[0].UID != "waits" {
		t.Errorf("%v, %v", b.ours.Running, b.ours.Waiting)
	}
}

// Nothing begins before the queue has the first lists. Informers that have synced may still be handing them over.
func TestBeginsWithTheFirstLists(t *testing.T) {
	b := newBench(t, "most-allocated")
	ctx, cancel := context.WithCancel(t.Context())
	if len(b.listed) != 2 {
		t.Errorf("it waits for %d lists, want those of pods and of nodes", len(b.listed))
	}
	b.listed[1] = func() bool {
		cancel() // no more comes
		return false
	}
	if _, err := b.Run(ctx); err != nil || b.Ready() == nil {
		t.Errorf("began, or failed: %v", err)
	}
}

// A pod that fits nowhere takes the place of one of lower priority in the cluster in memory, which waits there until it really ends.
func TestPreemption(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	sized := func(name string, priority int32) *v1.Pod {
		return pod(name).Priority(priority).Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Obj()
	}
	b.binds(sized("kept", 1000), "a")
	low := b.binds(sized("low", 0), "b")
	high := sized("high", 1000)
	failed := memcluster.On(high, "")
	failed.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	b.happens(event{pod: high})
	b.happens(event{old: high, pod: failed})
	if b.ours.Running["high"] == nil || b.ours.Running["kept"] == nil || len(b.ours.Waiting) != 1 || b.ours.Waiting[0].UID != "low" {
		t.Fatalf("%v, %v", b.ours.Running, b.ours.Waiting)
	}
	b.happens(event{old: low})
	b.happens(event{old: failed, pod: memcluster.On(failed, "b")})
	if len(b.ours.Running) != 2 || len(b.ours.Waiting) != 0 || len(b.waiting) != 0 {
		t.Errorf("%v, %v", b.ours.Running, b.ours.Waiting)
	}
}

// Many waiting pods that fit nowhere do not keep one from its turn that fits, even if they have a higher priority.
func TestEveryWaitingPodHasItsTurn(t *testing.T) {
	b := newBench(t, "most-allocated", "a")
	blocker := b.binds(pod("blocker").Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Obj(), "a")
	for i := range 2*retries + 5 {
		b.binds(pod(fmt.Sprint("big-", i)).Priority(1000).Req(map[v1.ResourceName]string{v1.ResourceCPU: "9"}).Obj(), "a")
	}
	b.binds(pod("small").Req(map[v1.ResourceName]string{v1.ResourceCPU: "5"}).Obj(), "a")
	if b.ours.Running["small"] != nil {
		t.Fatal("there is no room yet")
	}
	b.happens(event{old: blocker})
	for range 5 {
		b.clock.Step(time.Second)
		b.work(t.Context(), nil)
	}
	if b.ours.Running["small"] == nil || len(b.ours.Waiting) != 2*retries+5 {
		t.Errorf("%d wait", len(b.ours.Waiting))
	}
}

// Would-be failures are counted with their reason: here, a pod on a node that our filters refuse.
func TestUnschedulableForUs(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	p := pod("x").NodeSelector(map[string]string{v1.LabelHostname: "none"}).Obj()
	b.binds(p, "a")
	b.is(unschedulableForUs, 1)
	if b.counts.Skewed != 1 || len(b.failures) != 1 || b.failures[0].Why == "" || b.failures[0].Theirs != "a" {
		t.Errorf("%+v, %+v", b.counts, b.failures)
	}
	if len(b.ours.Waiting) != 1 {
		t.Error("it does not wait in the cluster in memory")
	}
}

// A node that upstream's filters refuse is a failure, even if the profile's own filters were switched off.
func TestInfeasible(t *testing.T) {
	b := newBench(t, "best-fit", "a", "b")
	off := b.config.Profile.DeepCopy()
	for i, p := range off.Plugins.MultiPoint.Enabled {
		if p.Name == "NodeResourcesFit" {
			off.Plugins.MultiPoint.Enabled = slices.Delete(off.Plugins.MultiPoint.Enabled, i, i+1)
			break
		}
	}
	c := b.config
	c.Profile, c.Client = *off, fake.NewClientset()
	w := fatal.Value(New(t.Context(), c))(t)
	b.Watcher = w
	for _, n := range []string{"a", "b"} {
		b.queue.put(event{now: node(n)})
	}
	b.start(t.Context())
	for i := range 4 {
		b.binds(pod(fmt.Sprint(i)).Obj(), "a")
	}
	b.binds(pod("4").Obj(), "b")
	b.is(infeasible, 1)
	if len(b.failures) != 1 || b.failures[0].Node != "a" || b.failures[0].Why == "" {
		t.Errorf("%+v", b.failures)
	}
}

// Pods that leave the profile no free choice, other schedulers' pods and pods that were bound unseen keep their nodes.
func TestFixed(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	b.binds(pod("0").Obj(), "a")
	claim := pod("claim").PVC("data").Obj()
	share := pod("share").Obj()
	share.Annotations = map[string]string{kube.GPUMilliAnnotation: "460"}
	other := pod("other").SchedulerName("other").Obj()
	for _, p := range []*v1.Pod{claim, share, other} {
		b.binds(p, "b")
	}
	b.happens(event{pod: memcluster.On(pod("late").Obj(), "b")})
	for _, uid := range []string{"claim", "share", "other", "late"} {
		if p := b.ours.Running[pod(uid).Obj().UID]; p == nil || p.Spec.NodeName != "b" {
			t.Errorf("%s: %v", uid, p)
		}
	}
	n := b.counts.NotCompared
	if n[volumeReason] != 1 || n[gpuReason] != 1 || n[lateReason] != 1 || b.counts.Compared != 1 || b.counts.Bound != 4 {
		t.Errorf("%+v", b.counts)
	}
}

// When a node is gone, the pods that the profile had put there wait for another one. Pods that were really there stay until they really
// end, because the node may come back.
func TestNodeGone(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	mine := b.binds(pod("0").Obj(), "b")
	home := b.ours.Running["0"].Spec.NodeName
	fixed := b.binds(pod("fixed").PVC("data").Obj(), home)
	b.happens(event{was: node(home)})
	if p := b.ours.Running["0"]; p == nil || p.Spec.NodeName == home {
		t.Errorf("%v: it should have moved", p)
	}
	b.happens(event{now: node(home)})
	if p := b.ours.Running[fixed.UID]; p == nil || p.Spec.NodeName != home {
		t.Errorf("the fixed pod is gone or moved: %v", p)
	}
	b.happens(event{old: fixed})
	b.happens(event{old: mine})
	if len(b.ours.Running)+len(b.ours.Waiting) != 0 {
		t.Errorf("%v, %v", b.ours.Running, b.ours.Waiting)
	}
}

// After any events, the real cluster's cost counts the bound pods, and every bound pod is in the cluster in memory once: on a node, or
// waiting.
func TestClustersFollow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rapid.SampledFrom([]string{"most-allocated", "kube-scheduler"}).Draw(rt, "policy"), "a", "b", "c")
		names := []string{"a", "b", "c"}
		bound := map[string]*v1.Pod{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "events") {
			b.clock.Step(time.Duration(rapid.IntRange(0, 100).Draw(rt, "seconds")) * time.Second)
			if len(bound) > 0 && rapid.Bool().Draw(rt, "ends") {
				keys := make([]string, 0, len(bound))
				for k := range bound {
					keys = append(keys, k)
				}
				slices.Sort(keys)
				k := rapid.SampledFrom(keys).Draw(rt, "which")
				b.happens(event{old: bound[k]})
				delete(bound, k)
				continue
			}
			cpu := fmt.Sprint(rapid.IntRange(1, 8).Draw(rt, "cpu"))
			p := pod(fmt.Sprint("p", i)).Req(map[v1.ResourceName]string{v1.ResourceCPU: cpu}).Obj()
			bound[p.Name] = b.binds(p, rapid.SampledFrom(names).Draw(rt, "node"))
		}
		nodes := each.Map(names, func(n string) v1.Node { return *node(n) })
		var pods []v1.Pod
		for _, p := range bound {
			pods = append(pods, *p)
		}
		want, _, err := kube.Snapshot(nodes, pods)
		fatal.If(rt, err)
		got, err := b.theirs.Cost()
		if d := got - (objective.Balance{}).Cost(want.Nodes); err != nil || d > 1e-9 || d < -1e-9 {
			rt.Fatalf("cost %v, off by %v, %v", got, d, err)
		}
		if n := len(b.ours.Running) + len(b.ours.Waiting); n != len(bound) {
			rt.Fatalf("%d pods in memory, %d are bound", n, len(bound))
		}
		for uid, p := range b.ours.Running {
			if bound[string(uid)] == nil || p.Spec.NodeName == "" {
				rt.Fatalf("%s is not bound", uid)
			}
		}
	})
}

// Terms about measured usage, and other configurations without a meaning, are refused.
func TestValidate(t *testing.T) {
	good := Config{
		Of: []string{"x"}, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}, Block: time.Second, Limits: DefaultLimits,
	}
	fatal.If(t, good.Validate())
	for name, change := range map[string]func(*Config){
		"nobody": func(c *Config) { c.Of = nil }, "no time": func(c *Config) { c.Block = 0 },
		"no objective": func(c *Config) { c.Objective = nil },
		"usage":        func(c *Config) { c.Objective, _ = objective.Parse("hot") }, "pods": func(c *Config) { c.Limits.Pods = 0 },
		"traffic":  func(c *Config) { c.Objective, _ = objective.Parse("traffic") },
		"failures": func(c *Config) { c.Limits.Failures = -1 }, "time": func(c *Config) { c.Limits.P99 = 0 },
		"matters": func(c *Config) { c.Limits.Matters = 1 },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A Live has the last comparisons, the newest first, with both nodes, and the time so far in a bounded number of blocks.
func TestLive(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b", "c")
	if text, err := json.Marshal(b.live()); err != nil || !strings.Contains(string(text), `"recent":[],"course":[]`) {
		t.Errorf("at the beginning: %s, %v", text, err)
	}
	b.binds(pod("1").Obj(), "a")
	b.binds(pod("2").Obj(), "b") // 2 would have gone to a, beside 1
	l := b.live()
	if len(l.Recent) != 2 || l.Recent[0].Pod != "default/2" || l.Recent[1].Pod != "default/1" {
		t.Fatalf("%+v", l.Recent)
	}
	if c := l.Recent[0]; c.What != different || c.Theirs != "b" || c.Node != "a" || c.Gained >= 0 || !c.Time.Equal(b.clock.Now()) {
		t.Errorf("%+v: packing is worse for balance", c)
	}
	if l.Verdict.Answer != notYet || l.Batches != nil || len(l.Course) != 0 {
		t.Errorf("%+v", l)
	}
	for range keptComparisons + 5 {
		p := b.binds(pod(fmt.Sprint("p-", b.counts.Bound)).Obj(), "c")
		b.happens(event{old: p})
	}
	huge := pod("huge").Obj()
	huge.Spec.NodeSelector = map[string]string{"none": "such"}
	b.binds(huge, "a")
	for range mostCourse + 10 {
		b.clock.Step(time.Minute)
		b.work(t.Context(), nil)
	}
	l = b.live()
	if len(l.Recent) != keptComparisons || len(l.Course) > mostCourse || len(l.Course) < mostCourse/3 {
		t.Errorf("%d comparisons, %d blocks", len(l.Recent), len(l.Course))
	}
	if c := l.Recent[0]; c.What != unschedulableForUs || c.Node != "" || c.Theirs != "a" || c.Why == "" {
		t.Errorf("%+v: no node has the label", c)
	}
	l.Recent[0].Pod = "another"
	if b.live().Recent[0].Pod != "default/huge" {
		t.Error("a Live shares its comparisons with the watcher")
	}
}

// Live asks a Watcher that runs, and ends with its context where none does.
func TestLiveAsks(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		ended <- err
	}()
	l, err := b.Live(t.Context())
	if err != nil || l.Profile != "most-allocated" || l.Version != version {
		t.Errorf("%+v, %v", l, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := b.Live(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("nobody answers: %v", err)
	}
}

// A Watcher asks at the beginning and every hour what moves would bring. A search that fails leaves the answer of the one before.
func TestMoves(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	type answer struct {
		Moves
		error
	}
	answers := make(chan answer)
	b.config.Moves = func(ctx context.Context) (Moves, error) {
		select {
		case a := <-answers:
			return a.Moves, a.error
		case <-ctx.Done():
			return Moves{}, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Report)
	go func() {
		r, err := b.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	last := Moves{Pods: 1, Before: 0.5, After: 0.2}
	answers <- answer{Moves: Moves{Pods: 2, Before: 0.5, After: 0.3}}
	for _, a := range []answer{{error: errors.New("refused")}, {Moves: last}} {
		for l, err := b.Live(t.Context()); l.Moves == nil; l, err = b.Live(t.Context()) {
			fatal.If(t, err)
		}
		b.clock.Step(59 * time.Minute)
		select {
		case answers <- a:
			t.Error("a search before an hour has passed")
		default:
		}
		b.clock.Step(time.Minute)
		answers <- a
	}
	for l, err := b.Live(t.Context()); *l.Moves != last; l, err = b.Live(t.Context()) {
		fatal.If(t, err)
	}
	cancel()
	r := <-ended
	r.observe()
	gain, err := testutil.GetGaugeMetricValue(movesGauge.WithLabelValues())
	if err != nil || math.Abs(gain-0.3) > 1e-9 || *r.Moves != last {
		t.Errorf("%v, %v of %+v", gain, err, r.Moves)
	}
}

// A running watcher serves its findings, with the words for each result; a watcher that has not read the cluster says so.
func TestServe(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, Path, nil))
		return w
	}
	if w := ask(http.MethodGet); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "not been read yet") {
		t.Errorf("before it has read the cluster: %d, %s", w.Code, w.Body)
	}
	b.binds(pod("1").Obj(), "a")
	b.binds(pod("2").Obj(), "b")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		ended <- err
	}()
	if _, err := b.Live(t.Context()); err != nil { // it runs
		t.Fatal(err)
	}
	if w := ask(http.MethodPost); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w := ask(http.MethodGet)
	l, err := ParseLive(w.Body.Bytes())
	if err != nil || w.Code != http.StatusOK || len(l.Recent) != 2 || len(l.Results) != len(outcomes) {
		t.Fatalf("%d, %+v, %v", w.Code, l, err)
	}
	if x := l.Results[2]; x.What != different || x.Text != "another node" || x.Fails || x.Pods != 1 {
		t.Errorf("%+v", x)
	}
	if got := l.Results[0].Share + l.Results[1].Share; l.Agreement != got || l.Counts.Compared != 2 {
		t.Errorf("the agreement is %v of %+v", l.Agreement, l.Results)
	}
	for _, x := range l.Results {
		if x.Text == "" || x.Fails != (x.What == unschedulableForUs || x.What == infeasible) {
			t.Errorf("%+v", x)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, text := range []string{``, `[]`, `{"version":"other"}`, `{"version":"` + version + `","recent":3}`} {
		if l, err := ParseLive([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, l)
		}
	}
}
