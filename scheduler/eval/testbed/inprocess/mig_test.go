package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// gigabytes are the memory of the GPU models, which is in the names of profiles.
var gigabytes = map[string]int{"A100": 40, "H100": 80}

// pools returns the machines as node pools of kwokcluster, a pool for each model.
func pools(env *sim.Env) []byte {
	m := env.Config().MIG
	var b strings.Builder
	b.WriteString("pools:\n")
	for _, model := range m.Models {
		var profiles []string
		for _, p := range mig.Profiles() {
			profiles = append(profiles, p.Name(gigabytes[model]))
		}
		r := env.Config().Given.Nodes[0].Allocatable
		fmt.Fprintf(&b, "  - name: %s\n    count: %d\n    capacity: {cpu: %dm, memory: %d}\n    devices:\n      - {product: %s, count: %d, "+
			"memory: %dGi, mig: [%s]}\n",
			strings.ToLower(model), m.Machines, r.MilliCPU, r.Memory, model, m.GPUs, gigabytes[model],
			strings.Join(profiles, ", "))
	}
	return []byte(b.String())
}

// live creates the pods of arrivals one after another.
type live struct {
	client   kubernetes.Interface
	machines sim.MIG
	profile  string // of the scheduler
}

func (l live) claim(name string, a *cluster.Pod) *resourceapi.ResourceClaim {
	model := a.GPUModels[0]
	expression := fmt.Sprintf(`device.attributes["gpu.nvidia.com"].profile == %q && device.attributes["gpu.nvidia.com"].productName == %q`,
		a.Partition.Name(gigabytes[model]), model)
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "mig.nvidia.com", Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
	}}}
	return c
}

func (l live) pod(name string, a *cluster.Pod) *corev1.Pod {
	r := a.Requests
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: l.profile, TerminationGracePeriodSeconds: new(int64),
		Containers:     []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(name)}},
	}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.Memory, resource.BinarySI),
	}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return p
}

// place creates a pod and its claim, waits until the scheduler has decided, and returns where the partition lies.
func (l live) place(ctx context.Context, number int, a *cluster.Pod) (at place, ok bool, err error) {
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(l.profile, ":", "-"), number)
	ns := corev1.NamespaceDefault
	if _, err := l.client.ResourceV1().ResourceClaims(ns).Create(ctx, l.claim(name, a), metav1.CreateOptions{}); err != nil {
		return at, false, err
	}
	if _, err := l.client.CoreV1().Pods(ns).Create(ctx, l.pod(name, a), metav1.CreateOptions{}); err != nil {
		return at, false, err
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		p, err := l.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ok = p.Spec.NodeName != ""
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return ok, nil
	})
	if err != nil || !ok {
		// It must not get a node later.
		return at, false, errors.Join(err, l.client.CoreV1().Pods(ns).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	c, err := l.client.ResourceV1().ResourceClaims(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return at, false, err
	}
	at, err = l.read(c, a.Partition)
	return at, true, err
}

// read returns where the partition of an allocated claim lies.
func (l live) read(c *resourceapi.ResourceClaim, want mig.Profile) (at place, err error) {
	if c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
		return at, fmt.Errorf("claim %s has no single device", c.Name)
	}
	r := c.Status.Allocation.Devices.Results[0]
	model, number, _ := strings.Cut(r.Pool, "-")
	for i, m := range l.machines.Models {
		if strings.ToLower(m) != model {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return at, err
		}
		at.node = i*l.machines.Machines + n
		format := "gpu-%d-mig-" + strings.Replace(want.Name(gigabytes[m]), ".", "", 1) + "-%d"
		if _, err := fmt.Sscanf(r.Device, format, &at.gpu, &at.start); err != nil {
			return at, fmt.Errorf("claim %s for %s has device %s: %w", c.Name, want.Name(gigabytes[m]), r.Device, err)
		}
	}
	return at, nil
}

// Policies put every partition on the node, the GPU and the start of the simulator, and upstream's allocator the first that fits on the
// node that kube-scheduler chose. No two partitions overlap with any profile.
func TestClusterAgreesWithSimulator(t *testing.T) {
	m := sim.MIG{Models: []string{"A100", "H100"}, Machines: 2, GPUs: 2, Mix: "skew-small", Loads: []float64{1.3}}
	env, err := sim.New(sim.Config{MIG: &m, Preferences: preference.Off})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mig:best-fit", "mig:placements", "gpu-best-fit", "mig:value", "kube-scheduler"} {
		p := server.Profile{SchedulerName: strings.ReplaceAll(name, ":", "-"), Args: server.Args{Policy: name, Preferences: preference.Off}}
		if name == "kube-scheduler" {
			p.Policy, p.Variant = "", server.DefaultProfile
		}
		c := testbed.Config{ // of its own: the scheduler might not have seen yet that the pods before are gone
			Name: "mig", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: pools(env)},
			Scheduler: server.Config{PercentageOfNodesToScore: 100, Profiles: []server.Profile{p}},
		}
		err = testbed.Run(t.Context(), c, func(ctx context.Context, b *testbed.Bed) error {
			return live{b.Client, m, p.SchedulerName}.agree(ctx, t, env, name)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// agree plays arrivals on the empty cluster and in the simulator, which follows the cluster where they differ.
func (l live) agree(ctx context.Context, t *testing.T, env *sim.Env, name string) error {
	rule, err := heuristic.Find(name)
	if err != nil {
		return err
	}
	all := l.machines.Arrivals(42)
	p := rule.New(policy.Setting{Seed: 1, Typical: env.Typical()})
	if name == "kube-scheduler" { // devices are those of upstream's allocator
		p = policy.FirstFit(p)
	}
	decide := eval.Deciding(p, nil)
	if err := env.Reset(42); err != nil {
		return err
	}
	nodes, devices, placed, left := 0, 0, 0, 0
	for i, a := range all {
		at, ok, err := l.place(ctx, i, a.Pod)
		if err != nil {
			return err
		}
		if fits := !env.Done() && env.Next() == i; ok != fits {
			return fmt.Errorf("pod %d has a place: %v, in the simulator: %v", i, ok, fits)
		}
		if !ok {
			left++
			continue
		}
		placed++
		if env.Nodes()[at.node].Slices[at.gpu]&a.Pod.Partition.On(at.start) != 0 {
			return fmt.Errorf("pod %d overlaps another: %+v", i, at)
		}
		choice, err := decide(env)
		if err != nil {
			return err
		}
		want := placeOf(env, choice)
		if at.node == want.node {
			nodes++
		} else { // which GPU and start would the simulator take there?
			choice.Candidate = slices.Index(env.Candidates(), int32(at.node))
			if choice.Devices, choice.Start, err = eval.Place(p, env.Snapshot().Nodes[at.node], env.Pending()); err != nil {
				return err
			}
			want = placeOf(env, choice)
		}
		if at == want {
			devices++
		}
		env.StepAt(choice.Candidate, cluster.Device(at.gpu), at.start)
	}
	t.Logf("%s: %d pods placed, %d left out; %d on the node and %d on the devices of the simulator", name, placed, left, nodes, devices)
	if placed < 20 || left == 0 {
		t.Errorf("%s: %d pods placed and %d left out prove nothing", name, placed, left)
	}
	// The scheduler's mig:value counts pods as they arrive, and the simulator knows the mix. kube-scheduler draws among equal nodes.
	if name != "mig:value" && devices != placed || name != "mig:value" && name != "kube-scheduler" && nodes != placed {
		t.Errorf("%s: of %d pods, %d are on the node and %d on the devices of the simulator", name, placed, nodes, devices)
	}
	return nil
}

// place is where a partition lies.
type place struct {
	node, gpu, start int
}

// placeOf returns where a choice puts the pending pod.
func placeOf(env *sim.Env, c eval.Choice) place {
	return place{int(env.Candidates()[c.Candidate]), bits.TrailingZeros64(uint64(c.Devices)), c.Start}
}
