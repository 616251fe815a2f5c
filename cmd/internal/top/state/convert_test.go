package state

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

func requesting(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
	}}
}

func TestPodOf(t *testing.T) {
	base := func(change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", CreationTimestamp: metav1.NewTime(noon)},
			Spec:       v1.PodSpec{SchedulerName: "gnn", NodeName: "n", Containers: []v1.Container{{Name: "a", Resources: requesting("100m", "1Mi")}}},
		}
		change(p)
		return p
	}
	want := func(change func(*Pod)) Pod {
		p := Pod{Namespace: "ns", Name: "p", Node: "n", Scheduler: "gnn", CPU: 100, Memory: 1 << 20, Created: noon}
		change(&p)
		return p
	}
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		want Pod
	}{
		{"one container", base(func(*v1.Pod) {}), want(func(*Pod) {})},
		{"GPUs", base(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[kube.GPUResource] = resource.MustParse("2") }),
			want(func(p *Pod) { p.GPU = 2000 })},
		{"share of a GPU", base(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[kube.GPUMilliResource] = resource.MustParse("470")
			p.Annotations = map[string]string{kube.GPUMilliAnnotation: "470", kube.GPUIndexAnnotation: "3"}
		}), want(func(p *Pod) { p.GPU, p.Devices = 470, cluster.Device(3) })},
		{"succeeded", base(func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), want(func(p *Pod) { p.Status, p.Done = "Succeeded", true })},
		{"failed", base(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), want(func(p *Pod) { p.Status, p.Done = "Failed", true })},
		{"scheduled", base(func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{
				{Type: v1.PodReady}, {Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)},
			}
		}), want(func(p *Pod) { p.Scheduled = noon })},
		{"unschedulable", base(func(p *v1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions = []v1.PodCondition{{
				Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "no\x1b[2Jroom\n",
			}}
		}), want(func(p *Pod) { p.Node, p.Reason, p.Message = "", "Unschedulable", "no [2Jroom " })},
	} {
		if d := cmp.Diff(c.want, podOf(c.pod)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
}

func TestNodeOf(t *testing.T) {
	ready := func(s v1.ConditionStatus) []v1.NodeCondition {
		return []v1.NodeCondition{{Type: v1.NodeMemoryPressure, Status: v1.ConditionTrue}, {Type: v1.NodeReady, Status: s}}
	}
	full := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(noon), Labels: map[string]string{
			"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/agent": "", "kubernetes.io/role": "agent",
			"node-role.kubernetes.io/": "x",
			v1.LabelTopologyZone:       "z1", kube.GPUModelLabel: "T4",
		}},
		Spec: v1.NodeSpec{Taints: []v1.Taint{
			{Key: "b", Value: "v", Effect: v1.TaintEffectNoSchedule}, {Key: "a", Effect: v1.TaintEffectNoExecute},
		}},
		Status: v1.NodeStatus{
			Conditions: ready(v1.ConditionTrue), NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeHostName, Address: "h"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "fd00::1"},
			},
			Allocatable: v1.ResourceList{
				"cpu": resource.MustParse("63500m"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110"),
				kube.GPUResource: resource.MustParse("8"),
			},
		},
	}
	want := Node{
		Name: "n", Status: "Ready", Ready: true, Worker: true, Roles: []string{"agent", "worker"}, Version: "v1.36.3", Zone: "z1",
		InternalIP: "10.0.0.1",
		Taints:     []string{"a:NoExecute", "b=v:NoSchedule"}, Created: noon,
		CPU: Usage{Allocatable: 63_500}, Memory: Usage{Allocatable: 256 << 30}, GPU: Usage{Allocatable: 8000}, Pods: Usage{Allocatable: 110},
		GPUModel: "T4", Devices: make([]int64, 8),
	}
	if d := cmp.Diff(want, nodeOf(full)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, c := range []struct {
		name       string
		node       v1.Node
		status     string
		ready      bool
		worker     bool
		roleInView string
	}{
		{"no condition", v1.Node{}, "Unknown", false, true, "worker"},
		{"not ready", v1.Node{Status: v1.NodeStatus{Conditions: ready(v1.ConditionFalse)}}, "NotReady", false, true, "worker"},
		{"unknown", v1.Node{Status: v1.NodeStatus{Conditions: ready(v1.ConditionUnknown)}}, "Unknown", false, true, "worker"},
		{"cordoned", v1.Node{Spec: v1.NodeSpec{Unschedulable: true}, Status: v1.NodeStatus{Conditions: ready(v1.ConditionTrue)}},
			"Ready,SchedulingDisabled", true, true, "worker"},
		{"held for a pod", v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kube.HoldsAnnotation: "[]"}}}, "Unknown,Moving",
			false, true, "worker"},
		{"pods leave", v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kube.DefragAnnotation: "moving"}}},
			"Unknown,Moving", false, true, "worker"},
		{"emptied", v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kube.DefragAnnotation: "emptied"}}}, "Unknown", false,
			true, "worker"},
		{"control plane", v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
			Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule}}},
		}, "Unknown", false, false, "control-plane"},
		{"control plane that takes pods", v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}, "Unknown", false, true, "control-plane"},
		{"control plane that is not preferred", v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "node-role.kubernetes.io/master",
			Effect: v1.TaintEffectPreferNoSchedule}}}}, "Unknown", false, true, "worker"},
		{"closed, without a role", v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "node-role.kubernetes.io/master",
			Effect: v1.TaintEffectNoExecute}}}}, "Unknown", false, false, "none"},
	} {
		n := nodeOf(&c.node)
		if n.Status != c.status || n.Ready != c.ready || n.Worker != c.worker || n.Role() != c.roleInView {
			t.Errorf("%s: %q ready %v worker %v role %q", c.name, n.Status, n.Ready, n.Worker, n.Role())
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain – text ✓": "plain – text ✓",
		"\x1b]0;title\a": " ]0;title ",
		"a\nb\tc\x7f":    "a b c ",
		"\u009b31m":      " 31m",
		"bad\xff":        "bad\uFFFD",
		"\u202egnp.exe":  " gnp.exe",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	var r rate
	if got := r.perSecond(noon); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 200 { // 20 a second for ten seconds
		r.add(noon.Add(time.Duration(i) * 50 * time.Millisecond))
	}
	for _, c := range []struct {
		at       time.Duration
		from, to float64
	}{
		{10*time.Second - time.Millisecond, 19.9, 20.1},
		{10*time.Second + 400*time.Millisecond, 18.9, 19.3}, // the pause begins to show
		{15 * time.Second, 9, 11},
		{19 * time.Second, 1, 3},
		{21 * time.Second, 0, 0},
		{time.Hour, 0, 0},
	} {
		if got := r.perSecond(noon.Add(c.at)); got < c.from || got > c.to {
			t.Errorf("after %v: %.2f a second, want %v to %v", c.at, got, c.from, c.to)
		}
	}
	r.add(noon.Add(30 * time.Second))
	r.add(noon.Add(10 * time.Second)) // late news of the same slot
	if got := r.perSecond(noon.Add(30*time.Second + 250*time.Millisecond)); got < 0.09 || got > 0.11 {
		t.Errorf("late news changed the present: %.3f a second", got)
	}
}

func TestStatusOf(t *testing.T) {
	waiting := func(reason string) []v1.ContainerStatus {
		return []v1.ContainerStatus{{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}}
	}
	ended := func(code int32, reason string) []v1.ContainerStatus {
		return []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}
	}
	for want, p := range map[string]v1.Pod{
		"Running":          {Status: v1.PodStatus{Phase: v1.PodRunning}},
		"Terminating":      {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: v1.PodStatus{Phase: v1.PodRunning}},
		"CrashLoopBackOff": {Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: waiting("CrashLoopBackOff")}},
		"Pending": {Status: v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: ended(0, "Completed"),
			ContainerStatuses: waiting("PodInitializing")}},
		"Error":     {Status: v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: ended(1, "")}},
		"OOMKilled": {Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: ended(137, "OOMKilled")}},
		"Evicted":   {Status: v1.PodStatus{Phase: v1.PodPending, Reason: "Evicted"}},
	} {
		if got := podOf(&p).Status; got != want {
			t.Errorf("%+v: %s, want %s", p.Status, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Cores(0), "0"}, {Cores(1), "0"}, {Cores(5), "0.01"}, {Cores(250), "0.25"}, {Cores(1000), "1"}, {Cores(9990), "9.99"},
		{Cores(9999), "10"}, {Cores(12_840), "12.8"}, {Cores(99_940), "99.9"}, {Cores(99_960), "100"}, {Cores(640_000), "640"},
		{Cores(1_234_567), "1235"},
		{Cores(-250), "-0.25"},
		{Bytes(0), "0"}, {Bytes(1023), "1023"}, {Bytes(1024), "1Ki"}, {Bytes(512 << 20), "512Mi"}, {Bytes(256 << 30), "256Gi"},
		{Bytes(5 << 39), "2.5Ti"},
		{Bytes(math.MaxInt64), "8Ei"},
		{Percent(0), "0%"}, {Percent(0.204), "20%"}, {Percent(1.125), "113%"},
		{Rate(0), "0.0"}, {Rate(12.34), "12.3"}, {Rate(1234.5), "1234"},
		{Age(noon, noon.Add(-90*time.Second)), "90s"}, {Age(noon, noon.Add(-26*time.Hour)), "26h"}, {Age(noon, time.Time{}), "<unknown>"},
		{Age(noon, noon.Add(time.Hour)), "0s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	want := []string{
		"", "0", "00", "1", "2", "10", "a", "node-1", "node-01", "node-2", "node-2a", "node-10", "node-10-1", "node-10-2",
		"node-99999999999999999999", "node-a", "zone",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, CompareNatural)
	// Names with the same numbers are in byte order: node-01 before node-1.
	i := slices.Index(want, "node-1")
	want[i], want[i+1] = want[i+1], want[i]
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestDeviceTexts(t *testing.T) {
	for milli, want := range map[int64][2]string{
		0: {"0", "0"}, 1: {"0", "1"}, 9: {"0.01", "1"}, 190: {"0.19", "19"}, 999: {"1", "99"}, 1000: {"1", "100"},
		6500: {"6.5", "650"}, 145_550: {"145.55", "14555"}, 100_000: {"100", "10000"},
	} {
		if got := [2]string{Devices(milli), DevicePercent(milli)}; got != want {
			t.Errorf("%d: %q, want %q", milli, got, want)
		}
	}
}

// gpusIn is a slice of a node with GPUs that several claims can share.
func gpusIn(node string, gpus int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{}
	s.Name, s.Spec.Driver, s.Spec.NodeName = node, "gpu.nvidia.com", &node
	s.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
	product, many := "T4\x1b", true
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i), AllowMultipleAllocations: &many,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: &product}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: *resource.NewQuantity(1000, resource.DecimalSI)}},
		})
	}
	return s
}

// gives is a claim that has a share of a device.
func gives(name, node, device string, shares int64) Claim {
	share := types.UID(name)
	return Claim{Namespace: "default", Name: name, Results: []resourceapi.DeviceRequestAllocationResult{{
		Driver: "gpu.nvidia.com", Pool: node, Device: device, ShareID: &share,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"shares": *resource.NewQuantity(shares, resource.DecimalSI)},
	}}}
}

// A node's devices come from its slices. Claims and annotations both take parts of them.
func TestDevicesInSlices(t *testing.T) {
	c, both := New(), worker("both")
	both.GPU.Allocatable, both.GPUModel, both.Devices = 2000, "P100", make([]int64, 2)
	c.SetNode(both)
	c.SetNode(worker("only"))
	c.SetSlice(gpusIn("both", 2))
	c.SetSlice(gpusIn("only", 3))
	half, annotated, pair := pod("half", "only", 1, 1), pod("annotated", "both", 1, 1), pod("pair", "only", 1, 1)
	half.Claims, pair.Claims = []string{"a"}, []string{"a", "b", "missing"}
	annotated.GPU, annotated.Devices = 300, cluster.Device(1)
	for _, p := range []Pod{half, annotated, pair} {
		c.SetPod(p, noon)
	}
	unallocated := Claim{Namespace: "default", Name: "waits"}
	c.replaceClaims([]Claim{
		gives("a", "only", "gpu-1", 460), gives("b", "only", "gpu-2", 1000), gives("c", "both", "gpu-1", 500), gives("gone", "gone", "gpu-0", 1),
		unallocated,
	})
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, n := range c.Frame(noon, 0).Nodes {
			got = append(got, fmt.Sprintf("%s %s %d/%d %v", n.Name, n.GPUModel, n.GPU.Requested, n.GPU.Allocatable, n.Devices))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	check("at first", "both P100 800/2000 [0 800]", "only T4  1460/3000 [0 460 1000]")
	if got := fmt.Sprint(c.PodsOn("only")[1].Held, c.PodsOn("only")[1].GPU,
		c.PodsOn("only")[0].GPU); got != "[{a gpu-1 460} {b gpu-2 1000}] 1460 460" {
		t.Errorf("the pods hold %s", got)
	}
	c.deleteClaim("default", "b")
	c.SetClaim(gives("d", "only", "gpu-0", 100))
	check("after changes", "both P100 800/2000 [0 800]", "only T4  560/3000 [100 460 0]")
	c.deleteSlice("only")
	check("without a slice", "both P100 800/2000 [0 800]", "only  0/0 []")
	c.replaceSlices(nil)
	check("without slices", "both P100 300/2000 [0 300]", "only  0/0 []")
}

// withPartitions adds a GPU of eight memory slices and a partition with half of them.
func withPartitions(s *resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	slots := func(n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	for name, n := range map[string]int64{"gpu-9": 8, "gpu-9-half": 4} {
		s.Spec.Devices = append(s.Spec.Devices,
			resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-9", Counters: slots(n)}}})
	}
	counters := s.DeepCopy()
	counters.Name, counters.Spec.Devices = s.Name+"-counters", nil
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-9", Counters: slots(8)}}
	s.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	return []*resourceapi.ResourceSlice{s, counters}
}

// cardsOf returns the cards of a node with the parts that pods have of them, by annotations and by claims: whole, shares and partitions.
func TestCardsOf(t *testing.T) {
	c := New()
	c.SetNode(worker("a"))
	for _, s := range withPartitions(gpusIn("a", 3)) {
		c.SetSlice(s)
	}
	c.SetNode(worker("plain"))
	counted := worker("counted")
	counted.GPU.Allocatable, counted.Devices = 2000, make([]int64, 2)
	c.SetNode(counted)
	set := func(name, node string, gpu int64, devices cluster.DeviceSet, claims ...string) {
		p := pod(name, node, 1, 1)
		p.GPU, p.Devices, p.Claims = gpu, devices, claims
		c.SetPod(p, noon)
	}
	set("annotated", "a", 300, cluster.Device(1))
	set("one", "a", 0, 0, "shared", "half")
	set("two", "a", 0, 0, "shared", "missing")
	set("elsewhere", "plain", 0, 0, "left")
	set("unnamed", "a", 700, 0)
	set("both", "counted", 2000, cluster.Device(0)|cluster.Device(1))
	half := gives("half", "a", "gpu-9-half", 0)
	half.Results[0].ShareID = nil
	c.replaceClaims([]Claim{gives("shared", "a", "gpu-1", 460), half, gives("left", "a", "gpu-0", 100), gives("gone", "gone", "gpu-0", 100)})
	want := []Card{
		{Name: "gpu-0", Milli: 100, Parts: []Part{{Claim: "default/left", Device: "gpu-0", Milli: 100}}},
		{Name: "gpu-1", Milli: 760, Parts: []Part{{Pod: "default/annotated", Milli: 300},
			{Pod: "default/one", Claim: "default/shared", Device: "gpu-1", Milli: 460},
			{Pod: "default/two", Claim: "default/shared", Device: "gpu-1", Milli: 460}}},
		{Name: "gpu-2", Milli: 700, Unnamed: 700},
		{Name: "gpu-9", Partitions: true, Milli: 500,
			Parts: []Part{{Pod: "default/one", Claim: "default/half", Device: "gpu-9-half", Milli: 500}}},
	}
	if d := cmp.Diff(want, c.cardsOf("a")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	want = []Card{
		{Milli: 1000, Parts: []Part{{Pod: "default/both", Milli: 1000}}}, {Milli: 1000, Parts: []Part{{Pod: "default/both", Milli: 1000}}},
	}
	if d := cmp.Diff(want, c.cardsOf("counted")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, name := range []string{"plain", "nowhere"} {
		if got := c.cardsOf(name); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
