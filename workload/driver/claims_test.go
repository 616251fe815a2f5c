package driver

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

func gpuClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: kube.GPUDriver}}
}

// describe describes a pod's requests for GPUs.
func describe(p *corev1.Pod) string {
	app := p.Spec.Containers[0].Resources
	out := fmt.Sprintf("%s: requests %d whole and %d milli, %d annotations", p.Name, app.Limits.Name(kube.GPUResource, "").Value(),
		app.Requests.Name(kube.GPUMilliResource, "").Value(), len(p.Annotations))
	for _, c := range p.Spec.ResourceClaims {
		out += ", claim " + *c.ResourceClaimName
		if len(app.Claims) == 1 && app.Claims[0].Name == c.Name {
			out += " in the container"
		}
	}
	if p.Spec.Affinity != nil {
		out += fmt.Sprint(", models ",
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values)
	}
	return out
}

// Pods with GPUs have claims or extended resources instead of annotations, and a claim leaves with its pod. cleancluster
// finds the others.
func TestClaims(t *testing.T) {
	for _, test := range []struct {
		how   GPURequests
		speed float64
		pods  []string
	}{
		{Claimed, 0, []string{"none: requests 0 whole and 0 milli, 0 annotations",
			"share: requests 0 whole and 0 milli, 0 annotations, claim share in the container",
			"whole: requests 0 whole and 0 milli, 0 annotations, claim whole in the container"}},
		{Claimed, 1e6, []string{"none: requests 0 whole and 0 milli, 0 annotations",
			"share: requests 0 whole and 0 milli, 0 annotations, claim share in the container",
			"whole: requests 0 whole and 0 milli, 0 annotations, claim whole in the container"}},
		{Extended, 0, []string{"none: requests 0 whole and 0 milli, 0 annotations",
			"share: requests 0 whole and 0 milli, 0 annotations, claim share in the container",
			"whole: requests 2 whole and 0 milli, 0 annotations, models [A10 T4]"}},
	} {
		c := fakecluster.New(gpuClass())
		cfg := config(t, c)
		stays := math.Inf(1)
		cfg.Plan = workload.Trace{
			gpuArrival("whole", 0, stays, cluster.Resources{GPU: 2}, "A10", "T4"), gpuArrival("share", 0, stays, cluster.Resources{GPUMilli: 300}),
			gpuArrival("none", 0, stays, cluster.Resources{}), gpuArrival("leaves", 0, 1, cluster.Resources{GPUMilli: 300}),
		}.Plan()
		cfg.Bare, cfg.Speed, cfg.GPUs = true, test.speed, test.how
		ctx := context.Background()
		if _, err := Run(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		pods, err := c.Client.CoreV1().Pods(DefaultNamespace).List(ctx, metav1.ListOptions{})
		fatal.If(t, err)
		var got, want []string
		for i := range pods.Items {
			got = append(got, describe(&pods.Items[i]))
			if p := &pods.Items[i]; len(p.Spec.ResourceClaims) > 0 {
				want = append(want, p.Name+" of "+cfg.RunID)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(test.pods, got); d != "" {
			t.Errorf("%s: %s", test.how, d)
		}
		list, err := c.Client.ResourceV1().ResourceClaims(DefaultNamespace).List(ctx, metav1.ListOptions{})
		fatal.If(t, err)
		var claims []string
		for _, claim := range list.Items {
			claims = append(claims, claim.Name+" of "+claim.Labels[workload.LabelRun])
		}
		slices.Sort(claims)
		slices.Sort(want)
		if d := cmp.Diff(want, claims); d != "" || test.how.Count(cfg.Plan) != len(want)+1 {
			t.Errorf("%s: %d in the plan, %s", test.how, test.how.Count(cfg.Plan), d)
		}
		found, err := cfg.Cleaner.Find(ctx, cleanup.Scope{Run: cfg.RunID})
		if err != nil || found.Counts() != (cleanup.Counts{Pods: 3, Claims: len(want)}) {
			t.Errorf("%s: %v, found %+v", test.how, err, found.Counts())
		}
		if err := cfg.Cleaner.Remove(ctx, cleanup.Scope{Run: cfg.RunID}, nil); err != nil {
			t.Error(err)
		}
		if list, _ := c.Client.ResourceV1().ResourceClaims(DefaultNamespace).List(ctx, metav1.ListOptions{}); len(list.Items) > 0 {
			t.Errorf("%s: %d claims are left", test.how, len(list.Items))
		}
	}
}

// A pod with mixed requests always has the same way, each way is taken by many pods, and only whole GPUs are extended resources. With any
// other value, all pods have this way.
func TestMixed(t *testing.T) {
	const pods = 300
	for gpus := range int64(2) {
		count := map[GPURequests]int{}
		for i := range pods {
			d := workload.Deployment{
				Name: fmt.Sprint("pod-", i), Shape: workload.Shape{Requests: cluster.Resources{GPU: gpus, GPUMilli: 500 * (1 - gpus)}},
			}
			way := Mixed.Of(d)
			count[way]++
			if again := Mixed.Of(d); again != way {
				t.Errorf("%s has %q and %q", d.Name, way, again)
			}
			for _, g := range []GPURequests{Annotated, Claimed, Extended} {
				if got := g.Of(d); got != g {
					t.Errorf("%q became %q", g, got)
				}
			}
		}
		if count[Claimed] < pods/5 || count[Annotated] < pods/5 || (count[Extended] >= pods/5) != (gpus > 0) || len(count) != 2+int(gpus) {
			t.Errorf("%d whole GPUs: %v", gpus, count)
		}
	}
}

// Claims are refused where no class serves them, before anything is created.
func TestClaimsNeedAClass(t *testing.T) {
	c := fakecluster.New()
	cfg := config(t, c)
	cfg.Plan = workload.Trace{gpuArrival("whole", 0, 1, cluster.Resources{GPU: 1})}.Plan()
	cfg.GPUs = Claimed
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "without Deployments") {
		t.Errorf("with Deployments: %v", err)
	}
	cfg.Bare = true
	_, err := Run(context.Background(), cfg)
	if err == nil || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "no DeviceClass gpu.nvidia.com") {
		t.Errorf("got %v", err)
	}
	if list, _ := c.Client.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); len(list.Items) > 0 {
		t.Error("a namespace was created")
	}
}

// A node's GPUs come from its slices, unless its capacity has them.
func TestMeasureCountsSlices(t *testing.T) {
	node := func(name string, gpus int64) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Allocatable: kube.Capacity(cluster.Resources{MilliCPU: 1000, Pods: 10, GPU: gpus})},
		}
	}
	slice := func(of string, gpus int) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: of}}
		s.Spec.Driver, s.Spec.NodeName, s.Spec.Devices = kube.GPUDriver, ptr.To(of), make([]resourceapi.Device, gpus)
		return s
	}
	c := fakecluster.New(node("a", 0), node("b", 4), node("c", 2), slice("a", 8), slice("b", 4))
	room, err := Measure(context.Background(), c.Client, nil)
	if err != nil || room.Allocatable.GPU != 14 {
		t.Errorf("%v: %d GPUs", err, room.Allocatable.GPU)
	}
}
