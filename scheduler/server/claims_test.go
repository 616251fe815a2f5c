package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
)

// claimPools are nodes with devices of each kind in ResourceSlices: shared-0 and shared-1 with four T4 in shares, whole-0 with
// four V100, mig-0 with two A100 that can be partitioned, and both-0, whose four P100 are also offered to annotations.
func claimPools() []nodepool.Pool {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	both := capacity.DeepCopy()
	kube.AddGPUs(both, 4)
	return []nodepool.Pool{
		{Name: "shared", Count: 2, Capacity: capacity,
			Devices: []nodepool.Devices{{Product: "T4", Count: 4, Memory: resource.MustParse("16Gi"), Shares: 1000}}},
		{Name: "whole", Count: 1, Capacity: capacity, Devices: []nodepool.Devices{{Product: "V100", Count: 4}}},
		{Name: "mig", Count: 1, Capacity: capacity, Devices: []nodepool.Devices{{Product: "A100", Count: 2, Memory: resource.MustParse("40Gi"),
			MIG: []string{"1g.5gb", "3g.20gb"}}}},
		{Name: "both", Count: 1, Capacity: both, Devices: []nodepool.Devices{{Product: "P100", Count: 4}}},
	}
}

// claimPod asks for the devices of a template on the nodes of a pool; without a template, for nvidia.com/gpu.
func claimPod(name, scheduler, template, pool string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: scheduler, TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
	}}
	if pool != "" {
		p.Spec.NodeSelector = map[string]string{"gnnsched.io/node-pool": pool}
	}
	if template == "" {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{kube.GPUResource: resource.MustParse("1")}
		return p
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To(template)}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return p
}

// allocated returns the devices of each pod's claim, as the API server has them: NODE/DEVICE DEVICE.
func (l *lab) allocated(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list := fatal.Value(l.client.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	out := map[string]string{}
	for _, c := range list.Items {
		if c.Status.Allocation == nil {
			continue
		}
		var devices []string
		pool := ""
		for _, r := range c.Status.Allocation.Devices.Results {
			devices, pool = append(devices, r.Device), r.Pool
		}
		slices.Sort(devices)
		for _, p := range c.Status.ReservedFor {
			out[p.Name] = pool + "/" + strings.Join(devices, " ")
		}
	}
	return out
}

// choices returns the metric of a profile's choices, by choice. It counts for the process, so also what other tests chose.
func choices(t *testing.T, profile string) map[string]int {
	t.Helper()
	all := fatal.Value(legacyregistry.DefaultGatherer.Gather())(t)
	out := map[string]int{}
	for _, family := range all {
		if family.GetName() != "gnnsched_claim_choices_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["profile"] == profile {
				out[labels["choice"]] = int(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

// Claims of every kind are filtered by upstream and placed by the profile's policy, and the devices that
// upstream allocates are those that the policy chose.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []*corev1.Pod // created one after another
		want string        // devices of each
	}{
		{"first fit breaks a device", []*corev1.Pod{claimPod("a", DefaultProfile, "share-of-gpu-2", "shared"),
			claimPod("b", DefaultProfile, "share", "shared")}, "*/gpu-2 */gpu-0"},
		{"shares, best fit", []*corev1.Pod{claimPod("a", "best", "share-of-gpu-2", "shared"), claimPod("b", "best", "share", "shared"),
			claimPod("c", "best", "share", "shared")}, "*/gpu-2 */gpu-2 */gpu-0"},
		{"whole devices", []*corev1.Pod{claimPod("a", "best", "not-gpu-0", "whole"), claimPod("b", "best", "whole", "whole"),
			claimPod("c", "net", "whole", "whole")}, "whole-0/gpu-1 whole-0/gpu-0 whole-0/gpu-2"},
		{"two requests with a constraint", []*corev1.Pod{claimPod("a", "net", "not-gpu-0", "whole"), claimPod("b", "net", "pair", "whole")},
			"whole-0/gpu-1 whole-0/gpu-0+gpu-2"},
		{"extended resource", []*corev1.Pod{claimPod("a", "best", "not-gpu-0", "whole"), claimPod("b", "best", "", "whole"),
			claimPod("c", DefaultProfile, "", "whole")}, "whole-0/gpu-1 whole-0/gpu-0 whole-0/gpu-2"},
		{"first fit breaks a GPU", []*corev1.Pod{claimPod("a", DefaultProfile, "half-of-gpu-1", ""), claimPod("b", DefaultProfile, "half", "")},
			"mig-0/gpu-1-mig-3g20gb-0 mig-0/gpu-0-mig-3g20gb-0"},
		{"partitions, best fit", []*corev1.Pod{claimPod("a", "best", "half-of-gpu-1", ""), claimPod("b", "best", "half", ""),
			claimPod("c", "best", "half", "")}, "mig-0/gpu-1-mig-3g20gb-4 mig-0/gpu-1-mig-3g20gb-0 mig-0/gpu-0-mig-3g20gb-4"},
		{"alternatives", []*corev1.Pod{claimPod("a", "best", "half-of-gpu-1", ""), claimPod("b", "best", "whole-or-half", ""),
			claimPod("c", "best", "whole-or-half", "")}, "mig-0/gpu-1-mig-3g20gb-4 mig-0/gpu-0 mig-0/gpu-1-mig-3g20gb-0"},
		{"alternatives, of which the node has the second", []*corev1.Pod{claimPod("a", "best", "share-of-gpu-2", "shared"),
			claimPod("b", "best", "whole-or-share", "shared"), claimPod("c", "net", "whole-or-share", "shared")}, "*/gpu-2 */gpu-2 */gpu-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, ns := newClaimBed(t, nil)
			best, net := choices(t, "best"), choices(t, "net")
			count := map[string]int{}
			var got []string
			for i, p := range c.pods {
				l.create(t, ns, p)
				l.bound(t, ns, i+1)
				count[p.Spec.SchedulerName]++
				got = append(got, strings.ReplaceAll(l.allocated(t, ns)[p.Name], " ", "+"))
			}
			want := strings.Fields(c.want)
			for i := range got {
				if _, device, _ := strings.Cut(got[i], "/"); got[i] != want[i] && "*/"+device != want[i] {
					t.Errorf("pod %s has %s, want %s", c.pods[i].Name, got[i], want[i])
				}
			}
			for profile, was := range map[string]map[string]int{"best": best, "net": net} {
				is := choices(t, profile)
				if is["other"] > was["other"] || is["taken"] > was["taken"] != (count[profile] > 0) {
					t.Errorf("choices of %s: %v, before %v; it placed %d pods", profile, is, was, count[profile])
				}
			}
		})
	}
}

// newClaimBed is a bed with claimPools, and a namespace with the templates.
func newClaimBed(t *testing.T, book *decision.Book) (l *lab, namespace string) {
	t.Helper()
	l = newBed(t, claimPools(), caseConfig(), plugin.Recording{Book: book})
	namespace = l.namespace(t, "claims")
	l.apply(t, namespace, "claims.yaml")
	return l, namespace
}

// Shares that fit only two by two come all at once through three profiles. Each device gets two.
func TestClaimsAtOnce(t *testing.T) {
	l, ns := newClaimBed(t, nil)
	const pods = 2 * 4 * 2
	for i := range pods {
		l.create(t, ns, claimPod(fmt.Sprint("p-", i), []string{"best", "net", DefaultProfile}[i%3], "share", "shared"))
	}
	l.bound(t, ns, pods)
	on := map[string]int{}
	for _, devices := range l.allocated(t, ns) {
		on[devices]++
	}
	for devices, n := range on {
		if n != 2 {
			t.Errorf("%d pods on %s", n, devices)
		}
	}
	if len(on) != pods/2 {
		t.Errorf("%d devices in use", len(on))
	}
}

// A claim that no device satisfies keeps its pod pending, with an event, and others go on.
func TestImpossibleClaim(t *testing.T) {
	l, ns := newClaimBed(t, nil)
	l.create(t, ns, claimPod("impossible", "best", "impossible", ""))
	l.untilOutcome(t, ns, "impossible", "pending: cannot allocate all claims")
	l.create(t, ns, claimPod("possible", "best", "whole", "whole"))
	l.bound(t, ns, 1)
}

// Pods with annotations and pods with claims share the devices of a node that offers them both ways, and none is used
// twice. Each profile sees both.
func TestOneLedger(t *testing.T) {
	l, ns := newClaimBed(t, nil)
	annotated := func(name, scheduler string) *corev1.Pod {
		p := claimPod(name, scheduler, "", "both")
		p.Annotations = map[string]string{kube.GPUCountAnnotation: "1", kube.GPUMilliAnnotation: "1000"}
		return p
	}
	for i, p := range []*corev1.Pod{
		annotated("a", "best"), claimPod("b", "best", "whole", "both"), annotated("c", DefaultProfile), claimPod("d", "net", "whole", "both"),
	} {
		l.create(t, ns, p)
		l.bound(t, ns, i+1)
	}
	l.create(t, ns, claimPod("claim-too-many", "best", "whole", "both"))
	l.create(t, ns, annotated("annotated-too-many", "best"))
	l.untilOutcome(t, ns, "claim-too-many", "pending: cannot allocate all claims")
	l.untilOutcome(t, ns, "annotated-too-many", "pending: too few idle GPUs")
	used := map[string]bool{}
	for _, p := range l.bound(t, ns, 4) {
		device := "both-0/gpu-" + p.Annotations[kube.GPUIndexAnnotation]
		if len(p.Spec.ResourceClaims) > 0 {
			device = l.allocated(t, ns)[p.Name]
		}
		if used[device] || device == "both-0/gpu-" {
			t.Errorf("%s has %s, which is in use: %v", p.Name, device, used)
		}
		used[device] = true
	}
}

// Slices that vanish or contradict themselves take their devices away until they are right again. Pods that wait say why.
func TestHostileSlices(t *testing.T) {
	l, ns := newClaimBed(t, nil)
	slicesAPI := l.client.ResourceV1().ResourceSlices()
	l.create(t, ns, claimPod("before", "best", "not-gpu-0", "whole"))
	l.bound(t, ns, 1)

	// Whether a pool whose slices count differently is incomplete or invalid depends on which of them upstream sees first.
	var hostile []string
	for _, c := range []struct {
		pod, reason                string
		generation, count, doubles int64
	}{
		{"too-many-slices", "cannot allocate all claims", 1, 1, 1}, // beside the cluster's own, which counts one, too
		{"same-device-twice", "invalid resource pools were encountered", 2, 2, 2},
	} {
		for i := range c.doubles {
			theirs := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(c.pod, "-", i)}, Spec: resourceapi.ResourceSliceSpec{
				Driver: nodepool.DefaultDriver, NodeName: ptr.To("whole-0"), Devices: []resourceapi.Device{{Name: "gpu-0"}},
				Pool: resourceapi.ResourcePool{Name: "whole-0", Generation: c.generation, ResourceSliceCount: c.count},
			}}
			fatal.Value(slicesAPI.Create(t.Context(), theirs, metav1.CreateOptions{}))(t)
			hostile = append(hostile, theirs.Name)
		}
		l.create(t, ns, claimPod(c.pod, "best", "whole", "whole"))
		l.untilOutcome(t, ns, c.pod, "pending: "+c.reason)
	}
	have, err := slicesAPI.Get(t.Context(), "whole-0-gpu.nvidia.com-0", metav1.GetOptions{})
	for _, name := range append([]string{"whole-0-gpu.nvidia.com-0"}, hostile...) { // in this order, nothing is allocated meanwhile
		if err == nil {
			err = slicesAPI.Delete(t.Context(), name, metav1.DeleteOptions{})
		}
	}
	fatal.If(t, err)
	l.create(t, ns, claimPod("vanished", "net", "whole", "whole"))
	l.untilOutcome(t, ns, "vanished", "pending: cannot allocate all claims")

	have.ResourceVersion, have.UID = "", ""
	have.Spec.Pool.Generation++
	slices.Reverse(have.Spec.Devices) // a driver may list its devices in any order
	fatal.Value(slicesAPI.Create(t.Context(), have, metav1.CreateOptions{}))(t)
	l.bound(t, ns, 4)
	on := map[string]string{}
	for pod, device := range l.allocated(t, ns) {
		if other, has := on[device]; has {
			t.Errorf("%s and %s both have %s", pod, other, device)
		}
		on[device] = pod
	}
	if len(on) != 4 || on["whole-0/gpu-1"] != "before" {
		t.Errorf("devices: %v", on)
	}
}

// The record of a pod with claims names its claims and devices as the API server has them, and the GPUs that the policy
// chose on both best nodes.
func TestRecordedClaims(t *testing.T) {
	book := decision.NewBook(100, nil)
	l, ns := newClaimBed(t, book)
	shared := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "for-two"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}},
		}}}
	fatal.Value(l.client.ResourceV1().ResourceClaims(ns).Create(t.Context(), shared, metav1.CreateOptions{}))(t)
	ofTwo := func(name string) *corev1.Pod {
		p := claimPod(name, "best", "share", "whole")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("for-two")}}
		return p
	}
	for i, c := range []struct {
		pod      *corev1.Pod
		devices  string // of the decision: device, thousandths and request
		runnerUp string // device there
	}{
		{claimPod("taken", "best", "share-of-gpu-2", "shared"), "gpu-2 460 gpu", "gpu-2"},
		{claimPod("share", "best", "share", "shared"), "gpu-2 460 gpu", "gpu-0"},
		{ofTwo("first"), "gpu-0 1000 one", ""},
		{ofTwo("second"), "gpu-0 1000 one", ""}, // the claim is allocated already
		{claimPod("pair", "best", "pair", "whole"), "gpu-1 1000 a gpu-2 1000 b", ""},
		{claimPod("extended", "best", "", "whole"), "gpu-3 1000 container-0-request-0", ""},
	} {
		l.create(t, ns, c.pod)
		l.bound(t, ns, i+1)
		name := c.pod.Name
		r := l.recorded(t, book, ns, name)
		var devices, held []string
		for _, d := range r.Claimed {
			devices = append(devices, fmt.Sprint(d.Name, " ", d.Milli, " ", d.Request))
			held = append(held, d.Name)
			claim, err := l.client.ResourceV1().ResourceClaims(ns).Get(t.Context(), d.Claim, metav1.GetOptions{})
			if name == "extended" {
				if d.Claim != "" {
					t.Errorf("the claim of %s is named %s before it exists", name, d.Claim)
				}
				continue
			}
			if err != nil || len(claim.Status.ReservedFor) == 0 || d.Pool != r.Node {
				t.Errorf("%s: claim %q, pool %s: %v", name, d.Claim, d.Pool, err)
			}
		}
		if got := strings.Join(devices, " "); got != c.devices {
			t.Errorf("%s has %q, want %q", name, got, c.devices)
		}
		if want := r.Node + "/" + strings.Join(held, " "); name != "first" && name != "second" && l.allocated(t, ns)[name] != want {
			t.Errorf("%s: the record says %s, the API server %s", name, want, l.allocated(t, ns)[name])
		}
		l.checkCards(t, r, held, c.runnerUp)
	}
}

// checkCards checks which GPUs the policy chose on the best nodes of a record.
func (l *lab) checkCards(t *testing.T, r decision.Record, held []string, runnerUp string) {
	t.Helper()
	if runnerUp == "" {
		return
	}
	here, there := "gpu.nvidia.com/"+r.Node+"/"+held[0], "gpu.nvidia.com/"+r.RunnerUp+"/"+runnerUp
	if len(r.Best) != 2 || fmt.Sprint(r.Best[0].Cards) != "["+here+"]" || fmt.Sprint(r.Best[1].Cards) != "["+there+"]" {
		t.Errorf("%s: best nodes %+v, want %s and %s", r.Pod, r.Best, here, there)
	}
}

// recorded waits for the record of a pod's decision.
func (l *lab) recorded(t *testing.T, book *decision.Book, namespace, pod string) (r decision.Record) {
	t.Helper()
	fatal.Until(t, "the record of "+pod, func() error {
		found := book.Last(decision.Query{Namespace: namespace, Pod: pod})
		if len(found) == 0 {
			return errors.New("there is none")
		}
		r = found[0]
		return nil
	})
	return r
}

// Events of a scheduler with any name have a reporting controller that the API server takes.
func TestController(t *testing.T) {
	for name, want := range map[string]string{
		"gnn":                                "gnn",
		"example.com/batch":                  "example.com/batch",
		"linear:./my weights":                "linear-.-my-weights",
		"größe":                              "gr--e",
		":":                                  "gnnsched",
		strings.Repeat("+x", 40):             strings.Repeat("x-", 31)[:61],
		"ahead:traffic+overload+balance=0.1": "ahead-traffic-overload-balance-0.1",
	} {
		got := controller(name)
		if got != want {
			t.Errorf("%q has the controller %q, want %q", name, got, want)
		}
		if faults := validation.IsQualifiedName(got); len(faults) > 0 {
			t.Errorf("%q has the controller %q: %v", name, got, faults)
		}
	}
}
