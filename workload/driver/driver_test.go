package driver

import (
	"context"
	"errors"
	"fmt"
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
		Room: Room{
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
	sum, err := Run(context.Background(), cfg)
	fatal.If(t, err)
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
	sum, err := Run(context.Background(), cfg)
	fatal.If(t, err)
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
	got, err := Measure(context.Background(), c.Client, tolerations)
	fatal.If(t, err)
	want := Room{
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
