package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func arrival(name string, pods int) workload.Step {
	return workload.Step{Action: workload.Add, Deployment: workload.Deployment{Name: name, Replicas: pods, Shape: workload.Shape{
		Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}, Limits: cluster.Resources{MilliCPU: 1000},
	}}}
}

// twoFills has 5 pods, a reset, then 4 pods; the plan deletes 1 of these.
var twoFills = workload.Plan{Steps: []workload.Step{
	arrival("a", 2), arrival("b", 3), {Action: workload.Reset},
	arrival("c", 3), arrival("d", 1), {Action: workload.Delete, Deployment: arrival("d", 1).Deployment},
}}

func config(t *testing.T, c *fakecluster.Cluster) Config {
	k := fakecluster.RunningClock(t)
	return Config{
		Client: c.Client, Cleaner: &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: k}, Plan: twoFills,
		SchedulerName: "gnn", RunID: "test", Clock: k, Interval: 200 * time.Millisecond, Settle: 10 * time.Minute,
		Capacity: Capacity{
			Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 100 << 30, Pods: 100}, Used: cluster.Resources{MilliCPU: 1000, Pods: 2},
		},
	}
}

func TestRunFillsAndResets(t *testing.T) {
	c := fakecluster.New()
	cfg := config(t, c)
	var recorded []workload.Step
	var seen []Progress
	cfg.Record = func(s workload.Step) error { recorded = append(recorded, s); return nil }
	cfg.Progress = func(p Progress) { seen = append(seen, p) }
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	want := Summary{RunID: "test", Scheduler: "gnn", Namespace: DefaultNamespace, NamespaceCreated: true, Fills: []FillSummary{
		{Deployments: 2, Pods: 5, Created: 5, Bound: 5, Arrived: 5, Placed: 5, Load: workload.Load{CPU: 0.35, Memory: 0.05, Pods: 0.07}},
		{Deployments: 2, Deleted: 1, Pods: 3, Created: 3, Bound: 3, Arrived: 4, Placed: 4, Left: 1,
			Load: workload.Load{CPU: 0.25, Memory: 0.03, Pods: 0.05}},
	}}
	times := cmpopts.IgnoreFields(FillSummary{}, "Elapsed", "Binding")
	if d := cmp.Diff(want, sum, times, cmpopts.IgnoreFields(Summary{}, "Elapsed")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(twoFills.Steps, recorded); d != "" {
		t.Errorf("recorded:\n%s", d)
	}
	for i, f := range sum.Fills {
		if f.Elapsed < 400*time.Millisecond || f.Elapsed > sum.Elapsed || f.Binding <= 0 || f.Binding > f.Elapsed {
			t.Errorf("fill %d: elapsed %v, binding %v of %v", i, f.Elapsed, f.Binding, sum.Elapsed)
		}
	}
	checkProgress(t, seen)
	// The pods of the last fill stay, the first fill's are deleted.
	pods, _ := c.Client.CoreV1().Pods(DefaultNamespace).List(context.Background(), metav1.ListOptions{})
	for _, p := range pods.Items {
		if p.Labels[workload.LabelFill] != "2" || p.Labels[workload.LabelName] != "c" {
			t.Errorf("%s of fill %s is left", p.Name, p.Labels[workload.LabelFill])
		}
	}
	if len(pods.Items) != 3 {
		t.Errorf("%d pods are left, want 3", len(pods.Items))
	}
}

func checkProgress(t *testing.T, seen []Progress) {
	t.Helper()
	phases := map[Phase]bool{}
	last := Progress{Fill: 1}
	for _, p := range seen {
		phases[p.Phase] = true
		if p.Fill < last.Fill || p.Fills != 2 || p.Elapsed < last.Elapsed || p.Done < 0 || p.Done > 1 || p.Bound > p.Created {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}
	if !phases[Deploying] || !phases[Settling] || !phases[Resetting] {
		t.Errorf("phases seen: %v", phases)
	}
	if last.Left < 0 || last.Fill != 2 {
		t.Errorf("the last report is %+v", last)
	}
}

// Pods that stay pending are reported with the scheduler's reason, and the run continues.
func TestPendingPodsAreReported(t *testing.T) {
	c := fakecluster.New()
	c.Slots, c.Reason = 4, "0/3 nodes are available: 3 Insufficient cpu."
	cfg := config(t, c)
	cfg.Settle = 2 * time.Minute
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	if len(sum.Fills) != 2 {
		t.Fatalf("%d fills", len(sum.Fills))
	}
	f := sum.Fills[0]
	if f.Bound != 4 || f.Pending != 1 || sum.Pending() != 1 {
		t.Errorf("bound %d, pending %d, %d in all", f.Bound, f.Pending, sum.Pending())
	}
	if d := cmp.Diff([]Reason{{Pods: 1, Message: c.Reason}}, f.Reasons); d != "" {
		t.Error(d)
	}
	if f.Elapsed < cfg.Settle {
		t.Errorf("gave up after %v, before the settle time", f.Elapsed)
	}
}

// The settle time starts again with each pod that is bound.
func TestSettleCountsFromTheLastBoundPod(t *testing.T) {
	c := fakecluster.New()
	c.Slots = 0
	cfg := config(t, c)
	cfg.Plan = workload.Plan{Steps: []workload.Step{arrival("a", 3)}}
	cfg.Settle = 2 * time.Minute
	start := cfg.Clock.Now()
	cfg.Progress = func(p Progress) {
		if slots := int(cfg.Clock.Since(start) / time.Minute); slots > 0 { // one pod a minute
			c.Bind(slots)
		}
	}
	sum, err := Run(context.Background(), cfg)
	if err != nil || sum.Fills[0].Bound != 3 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestInterruptKeepsWhatWasDone(t *testing.T) {
	for _, at := range []string{"deploying", "settling", "resetting"} {
		c := fakecluster.New()
		cfg := config(t, c)
		ctx, cancel := context.WithCancel(context.Background())
		var steps []workload.Step
		cfg.Record = func(s workload.Step) error {
			steps = append(steps, s)
			if at == "deploying" {
				cancel()
			}
			return nil
		}
		switch at {
		case "settling":
			c.Slots = 0
			cfg.Progress = func(p Progress) {
				if p.Phase == Settling {
					cancel()
				}
			}
		case "resetting":
			c.OnDelete = func(string) error { cancel(); return ctx.Err() }
		}
		sum, err := Run(ctx, cfg)
		cancel()
		if !errors.Is(err, context.Canceled) || len(sum.Fills) != 1 {
			t.Errorf("%s: %v, %d fills", at, err, len(sum.Fills))
			continue
		}
		there, _ := c.Client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{})
		if n := len(there.Items); n != len(steps) || n != sum.Fills[0].Deployments ||
			n != map[string]int{"deploying": 1, "settling": 2, "resetting": 2}[at] {
			t.Errorf("%s: %d deployments on the cluster, %d recorded, %d in the summary", at, n, len(steps), sum.Fills[0].Deployments)
		}
	}
}

func TestCreateIsTriedAgain(t *testing.T) {
	c := fakecluster.New()
	var calls atomic.Int32
	c.Client.PrependReactor("create", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		if calls.Add(1) == 1 {
			return true, nil, apierrors.NewTooManyRequests("busy", 0)
		}
		return false, nil, nil
	})
	cfg := config(t, c)
	cfg.Plan = workload.Plan{Steps: []workload.Step{arrival("a", 1)}}
	if sum, err := Run(context.Background(), cfg); err != nil || sum.Fills[0].Bound != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestRunRefuses(t *testing.T) {
	ns := func(phase corev1.NamespacePhase) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: DefaultNamespace}, Status: corev1.NamespaceStatus{Phase: phase}}
	}
	taken := func(labels map[string]string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: DefaultNamespace, Labels: labels}}
	}
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		edit    func(*Config)
		want    string
		hint    string
	}{
		{"terminating", []runtime.Object{ns(corev1.NamespaceTerminating)}, nil, "namespace gnnsched-sim is being deleted", "wait"},
		{"name taken", []runtime.Object{ns(""), taken(nil)}, nil, "already has a Deployment c", "another --seed"},
		{"name taken by a run", []runtime.Object{ns(""), taken(map[string]string{workload.LabelRun: "old"})}, nil, "of run old",
			"cleancluster --run old"},
		{"run in use", []runtime.Object{ns(""), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: DefaultNamespace,
			Labels: map[string]string{workload.LabelRun: "test"}}}}, nil, "run id test is in use: it is on Deployment x", "another id"},
		{"no run", nil, func(c *Config) { c.RunID = "" }, "run id", ""},
		{"bad scheduler", nil, func(c *Config) { c.SchedulerName = "My Scheduler" }, `scheduler name "My Scheduler"`, ""},
		{"bad namespace", nil, func(c *Config) { c.Namespace = "a.b" }, `namespace "a.b"`, ""},
		{"negative", nil, func(c *Config) { c.Settle = -1 }, "must not be negative", ""},
		{"bad plan", nil, func(c *Config) { c.Plan.Steps = append(c.Plan.Steps, arrival("c", 1)) }, `"c" is already deployed`, ""},
		{"no client", nil, func(c *Config) { c.Client = nil }, "needs a client", ""},
	} {
		cl := fakecluster.New(c.objects...)
		cfg := config(t, cl)
		if c.edit != nil {
			c.edit(&cfg)
		}
		_, err := Run(context.Background(), cfg)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: got %v (%+v), want %q", c.name, err, e, c.want)
		}
		there, _ := cl.Client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{})
		if len(there.Items) > len(c.objects) {
			t.Errorf("%s: %d deployments were created", c.name, len(there.Items))
		}
	}
}

// A namespace that exists does not get the run's labels.
func TestNamespaceOfOthersStaysTheirs(t *testing.T) {
	c := fakecluster.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev"}})
	cfg := config(t, c)
	cfg.Namespace = "dev"
	sum, err := Run(context.Background(), cfg)
	if err != nil || sum.NamespaceCreated {
		t.Fatalf("%+v, %v", sum, err)
	}
	n, _ := c.Client.CoreV1().Namespaces().Get(context.Background(), "dev", metav1.GetOptions{})
	if len(n.Labels) > 0 {
		t.Errorf("labels %v", n.Labels)
	}
}

// A run ends at an error of Record, because unrecorded steps could not be repeated.
func TestRecordErrorEndsTheRun(t *testing.T) {
	cfg := config(t, fakecluster.New())
	full := errors.New("disk full")
	cfg.Record = func(workload.Step) error { return full }
	sum, err := Run(context.Background(), cfg)
	if !errors.Is(err, full) || len(sum.Fills) != 1 || sum.Fills[0].Deployments != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestDeployment(t *testing.T) {
	cfg := Config{SchedulerName: "gnn", RunID: "r1", Namespace: "ns", Image: "img"}
	d := arrival("brave-otter", 7).Deployment
	d.Shape.Labels = map[string]string{"tier": "web"}
	d.Shape.NodeSelector = map[string]string{"pool": "x"}
	d.Shape.Tolerations = []cluster.Toleration{{Key: "k", Value: "v", Effect: cluster.NoSchedule}}
	d.Shape.NodeAffinity = [][]cluster.Requirement{
		{{Key: "zone", Operator: "NotIn", Values: []string{"a"}}}, {{Key: "gen", Operator: "Exists"}},
	}
	got := cfg.deployment(d, 2)
	ours := map[string]string{
		workload.LabelManagedBy: "gnnsched", workload.LabelRun: "r1", workload.LabelFill: "2", workload.LabelShape: "web",
		workload.LabelName: "brave-otter",
	}
	if d := cmp.Diff(ours, got.Labels); d != "" {
		t.Errorf("labels:\n%s", d)
	}
	ours["tier"] = "web"
	if d := cmp.Diff(ours, got.Spec.Template.Labels); d != "" {
		t.Errorf("labels of the pods:\n%s", d)
	}
	for k, v := range got.Spec.Selector.MatchLabels {
		if got.Spec.Template.Labels[k] != v {
			t.Errorf("the selector wants %s=%s, which the pods lack", k, v)
		}
	}
	p := got.Spec.Template.Spec
	want := []corev1.Toleration{
		{Key: workload.NodeTaint, Operator: corev1.TolerationOpExists},
		{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule},
	}
	if d := cmp.Diff(want, p.Tolerations); d != "" {
		t.Errorf("tolerations:\n%s", d)
	}
	where := kube.Terms(p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	if d := cmp.Diff(d.Shape.NodeAffinity, where); d != "" {
		t.Errorf("affinity:\n%s", d)
	}
	r := p.Containers[0].Resources
	text := fmt.Sprintf("%v %v, limits %v of %d, %d pods for %s on %s", r.Requests.Cpu(), r.Requests.Memory(), r.Limits.Cpu(), len(r.Limits),
		*got.Spec.Replicas, p.SchedulerName, p.NodeSelector["pool"])
	if text != "500m 1Gi, limits 1 of 1, 7 pods for gnn on x" {
		t.Errorf("got %q", text)
	}
}

func TestMeasure(t *testing.T) {
	node := func(name string, edit func(*corev1.Node)) runtime.Object {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Allocatable: kube.ResourceList(cluster.Resources{MilliCPU: 4000, Memory: 8 << 30})},
		}
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		edit(n)
		return n
	}
	taint := func(key string, e corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Value: "v", Effect: e}} }
	}
	pod := func(name, node string, phase corev1.PodPhase) runtime.Object {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x"}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: kube.ResourceList(cluster.Resources{MilliCPU: 100, Memory: 1 << 20})}}}},
		}
	}
	c := fakecluster.New(
		node("plain", func(*corev1.Node) {}), node("soft", taint("a", corev1.TaintEffectPreferNoSchedule)),
		node("kwok", taint(workload.NodeTaint, corev1.TaintEffectNoSchedule)), node("tolerated", taint("mine", corev1.TaintEffectNoExecute)),
		node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("control-plane", taint("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
		pod("a", "plain", corev1.PodRunning), pod("b", "kwok", corev1.PodPending), pod("done", "plain", corev1.PodSucceeded),
		pod("elsewhere", "control-plane", corev1.PodRunning), pod("waiting", "", corev1.PodPending),
	)
	tolerations := workload.Tolerations([]workload.Shape{{Tolerations: []cluster.Toleration{{Key: "mine", Exists: true}}}})
	got := fatal.Value(Measure(context.Background(), c.Client, tolerations))(t)
	want := Capacity{
		Nodes: 4, Excluded: 2, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 32 << 30, Pods: 440},
		Used: cluster.Resources{MilliCPU: 200, Memory: 2 << 20, Pods: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNewRunID(t *testing.T) {
	var ids []string
	for i := range 3 {
		ids = append(ids, NewRunID(time.Date(2025, 11, 20, 10, 0, i, 0, time.UTC)))
	}
	if !slices.IsSorted(ids) || !strings.HasPrefix(ids[0], "20251120-100000-") || (cleanup.Scope{Run: ids[0]}).Validate() != nil {
		t.Errorf("ids %q", ids)
	}
}

// gpuArrival returns the arrival of one pod.
func gpuArrival(name string, at, lifetime float64, r cluster.Resources, models ...string) workload.Arrival {
	r.MilliCPU, r.Pods = 100, 1
	return workload.Arrival{
		At: at, Lifetime: lifetime,
		Deployment: workload.Deployment{Name: name, Replicas: 1, Shape: workload.Shape{Weight: 1, Requests: r, GPUModels: models}},
	}
}

// The pods of a trace are created and deleted at its times divided by Speed, in its order and
// without Deployments.
func TestTraceInTime(t *testing.T) {
	c := fakecluster.New()
	cfg := config(t, c)
	stays := math.Inf(1)
	cfg.Plan = workload.Trace{
		gpuArrival("a", 0, 7200, cluster.Resources{GPU: 1}), gpuArrival("b", 3600, 3600, cluster.Resources{}),
		gpuArrival("c", 7200, stays, cluster.Resources{GPUMilli: 300}),
	}.Plan()
	cfg.Bare = true
	cfg.Speed, cfg.Interval = 60, 0
	start := cfg.Clock.Now()
	var at []time.Duration
	var names []string
	cfg.Record = func(s workload.Step) error {
		at, names = append(at, cfg.Clock.Since(start)), append(names, s.Action.String()+" "+s.Deployment.Name)
		return nil
	}
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	if d := cmp.Diff([]string{"add a", "add b", "delete a", "delete b", "add c"}, names); d != "" {
		t.Error(d)
	}
	for i, due := range []time.Duration{0, time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute} {
		if at[i] < due || at[i] > due+20*time.Second { // the test's clock jumps
			t.Errorf("%s after %v, it is due after %v", names[i], at[i], due)
		}
	}
	if f := sum.Fills[0]; f.Deployments != 3 || f.Deleted != 2 || f.Pods != 1 || f.Bound != 1 || f.Arrived != 3 || f.Placed != 3 ||
		f.Left != 2 || f.GPU != nil {
		t.Errorf("got %+v", f)
	}
	if n, _ := c.Client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{}); len(n.Items) > 0 {
		t.Errorf("%d Deployments", len(n.Items))
	}
	left, _ := c.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if len(left.Items) != 1 || left.Items[0].Name != "c" || left.Items[0].Labels[workload.LabelRun] != "test" {
		t.Errorf("left are %+v", left.Items)
	}
}

// The summary has the GPUs allocated when all were requested, and in the end.
func TestGPUSummary(t *testing.T) {
	c := fakecluster.New()
	c.Slots = 4
	cfg := config(t, c)
	stays := math.Inf(1)
	cfg.Plan = workload.Trace{
		gpuArrival("a", 0, stays, cluster.Resources{GPU: 1}), gpuArrival("b", 1, stays, cluster.Resources{GPUMilli: 400}),
		gpuArrival("c", 2, stays, cluster.Resources{GPUMilli: 600}),
		gpuArrival("d", 3, stays, cluster.Resources{GPUMilli: 700}), gpuArrival("e", 4, stays, cluster.Resources{GPU: 2}),
		gpuArrival("f", 5, stays, cluster.Resources{}),
	}.Plan()
	cfg.Bare = true
	cfg.Interval, cfg.Settle = 0, time.Minute
	cfg.Capacity.Allocatable.GPU = 2
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	want := &GPUSummary{Capacity: 2000, Asked: 4700, Allocated: 2700, AllocatedAtFull: 2000, UnscheduledCPU: 1, UnscheduledWhole: 1}
	if d := cmp.Diff(want, sum.Fills[0].GPU); d != "" {
		t.Error(d)
	}
	if g := sum.Fills[0].GPU; g.Allocation() != 1.35 || g.AllocationAtFull() != 1 {
		t.Errorf("%v and %v", g.Allocation(), g.AllocationAtFull())
	}
}

// The scheduler reads the GPU request of a pod as the shape has it.
func TestGPUsOnPods(t *testing.T) {
	cfg := Config{SchedulerName: "gnn", RunID: "r1", Namespace: "ns", Image: "img"}
	for _, want := range []kube.GPURequest{{GPU: 2, WantsIndex: true}, {GPUMilli: 250, Models: []string{"A10", "T4"}, WantsIndex: true}, {}} {
		d := gpuArrival("p", 0, 1, cluster.Resources{GPU: want.GPU, GPUMilli: want.GPUMilli}, want.Models...).Deployment
		d.Replicas = 2
		pods := cfg.pods(d, 1)
		if len(pods) != 2 || pods[0].Name != "p-0" || pods[1].Name != "p-1" || pods[1].Namespace != "ns" {
			t.Errorf("pods %+v", pods)
		}
		for _, spec := range []corev1.PodTemplateSpec{cfg.deployment(d, 1).Spec.Template, {ObjectMeta: pods[0].ObjectMeta, Spec: pods[0].Spec}} {
			r := spec.Spec.Containers[0].Resources
			got := fatal.Value(kube.GPURequestOf(spec.Annotations, kube.AmountsIn(r.Requests)))(t)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			for name, q := range r.Limits { // Kubernetes requires equal limits for extended resources
				if r.Requests[name] != q {
					t.Errorf("%s has the limit %v and the request %v", name, q, r.Requests[name])
				}
			}
			if (len(r.Limits) == 0) != (want.GPU+want.GPUMilli == 0) {
				t.Errorf("limits %v", r.Limits)
			}
		}
	}
}

// The progress of a trace counts pods, not Deployments that exist, and its time left falls until the
// last step.
func TestTraceProgress(t *testing.T) {
	c := fakecluster.New()
	c.Slots = 1
	cfg := config(t, c)
	cfg.Plan = workload.Trace{
		gpuArrival("a", 0, 600, cluster.Resources{}), gpuArrival("b", 700, math.Inf(1), cluster.Resources{}),
		gpuArrival("c", 1200, math.Inf(1), cluster.Resources{}),
	}.Plan()
	cfg.Bare = true
	cfg.Speed, cfg.Interval, cfg.Settle = 60, 0, 2*time.Second
	var seen []Progress
	cfg.Progress = func(p Progress) { seen = append(seen, p) }
	fatal.Value(Run(context.Background(), cfg))(t)
	last := time.Duration(math.MaxInt64)
	for _, p := range seen {
		if p.Arrivals != 3 || p.Arrived > 3 {
			t.Fatalf("%d of %d pods arrived", p.Arrived, p.Arrivals)
		}
		if p.Phase == Deploying && (p.Left < 0 || p.Left > last) {
			t.Errorf("%v left after %v left", p.Left, last)
		}
		if p.Phase == Deploying {
			last = p.Left
		}
	}
	end := seen[len(seen)-1]
	want := "3/3 pods arrived, 2 placed, 1 left, 1 wait for a node, cpu 12% mem 0% pods 4%, waiting for 1 pod to be bound"
	if end.Phase != Settling || end.Done != 1 || end.String() != want {
		t.Errorf("at the end %s of %v: %s", end.Phase, end.Done, end)
	}
	if !slices.ContainsFunc(seen, func(p Progress) bool {
		return strings.Contains(p.String(), "1/3 pods arrived") && strings.Contains(p.String(), " for the next pod to come or leave, ")
	}) {
		t.Error("nothing says what it waits for")
	}
}

// Pods that a trace removes stay in the summary, as pods: the number that came, the number that got a node, and the reasons of the others.
func TestTraceSummary(t *testing.T) {
	for name, c := range map[string]struct {
		slots                    int
		reason                   string
		placed, pending, created int
		row, why                 string
	}{
		"all placed": {slots: 3, placed: 3, created: 1, row: "1     3     3       0         2"},
		"full": {slots: 1, reason: "0/3 nodes are available: 3 Insufficient cpu.", placed: 2, created: 1,
			row: "1     3     2       1         2",
			why: "left without ever having a node in fill 1: 1 pod(s): 0/3 nodes are available: 3 Insufficient cpu.\n"},
		"no scheduler": {placed: 0, pending: 1, created: 1, row: "1     3     0       3         2",
			why: "left without ever having a node in fill 1: 2 pod(s): scheduler gnn has not looked at them; is it running?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakecluster.New()
			f.Slots, f.Reason = c.slots, c.reason
			cfg := config(t, f)
			cfg.Plan = workload.Trace{
				gpuArrival("a", 0, 600, cluster.Resources{}), gpuArrival("b", 300, 200, cluster.Resources{}),
				gpuArrival("c", 1200, math.Inf(1), cluster.Resources{}),
			}.Plan()
			cfg.Bare = true
			cfg.Speed, cfg.Interval, cfg.Settle = 60, 0, 2*time.Second
			sum := fatal.Value(Run(context.Background(), cfg))(t)
			if got := sum.Fills[0]; got.Arrived != 3 || got.Left != 2 || got.Placed != c.placed || got.Pending != c.pending ||
				got.Created != c.created {
				t.Errorf("%+v", got)
			}
			var b bytes.Buffer
			fatal.If(t, (Report{Summary: sum}).Write(&b, "table"))
			if !strings.Contains(b.String(), "FILL  PODS  PLACED  UNPLACED  LEFT ") || !strings.Contains(b.String(), c.row) ||
				!strings.Contains(b.String(), c.why) ||
				strings.Contains(b.String(), "DEPLOYMENTS") || strings.Contains(b.String(), "without ever") != (c.why != "") {
				t.Error(b.String())
			}
		})
	}
}
