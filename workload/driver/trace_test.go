package driver

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/driver/fakecluster"
)

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
	sum, err := Run(context.Background(), cfg)
	fatal.If(t, err)
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
	cfg.Room.Allocatable.GPU = 2
	sum, err := Run(context.Background(), cfg)
	fatal.If(t, err)
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
			got, err := kube.GPURequestOf(spec.Annotations, kube.AmountsIn(r.Requests))
			fatal.If(t, err)
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
	if _, err := Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
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
		"all placed": {slots: 3, placed: 3, created: 1, row: "1      3      3        0          2"},
		"full": {slots: 1, reason: "0/3 nodes are available: 3 Insufficient cpu.", placed: 2, created: 1,
			row: "1      3      2        1          2",
			why: "left without ever having a node in fill 1: 1 pod(s): 0/3 nodes are available: 3 Insufficient cpu.\n"},
		"no scheduler": {placed: 0, pending: 1, created: 1, row: "1      3      0        3          2",
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
			sum, err := Run(context.Background(), cfg)
			fatal.If(t, err)
			if got := sum.Fills[0]; got.Arrived != 3 || got.Left != 2 || got.Placed != c.placed || got.Pending != c.pending ||
				got.Created != c.created {
				t.Errorf("%+v", got)
			}
			var b bytes.Buffer
			fatal.If(t, (Report{Summary: sum}).Write(&b, "table"))
			if !strings.Contains(b.String(), "FILL   PODS   PLACED   UNPLACED   LEFT ") || !strings.Contains(b.String(), c.row) ||
				!strings.Contains(b.String(), c.why) ||
				strings.Contains(b.String(), "DEPLOYMENTS") || strings.Contains(b.String(), "without ever") != (c.why != "") {
				t.Error(b.String())
			}
		})
	}
}
