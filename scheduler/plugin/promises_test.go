package plugin

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// The devices of evicted pods are kept for the pod that preemption nominated, except from pods of a
// higher priority.
func TestNominatedPodsHaveTheirDevices(t *testing.T) {
	for _, c := range []struct {
		name     string
		asks     cluster.Resources
		priority int32
		want     string // empty if it must wait
	}{
		{"a share that fits elsewhere", share(100), 1, "1"},
		{"of equal priority", share(100), 9, "1"},
		{"of a higher priority", share(100), 10, "0"},
		{"a share without room elsewhere", share(600), 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			nominated := gpuPod("nominated", cluster.Resources{GPU: 1})
			nominated.Spec.Priority = ptr.To[int32](9)
			nominated.Status.NominatedNodeName = "n"
			b := newBed(t, "nominates", Args{Policy: "gpu-best-fit"}, nominated)
			victim := on("n", "0", "victim", share(900), 0)
			victim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{victim, on("n", "1", "stays", share(500), 9)}})
			b.sched.SchedulingQueue.Add(b.ctx, nominated) // with its nomination
			if got := b.sched.Profiles["nominates"].NominatedPodsForNode("n"); len(got) != 1 {
				t.Fatalf("%d pods are nominated", len(got))
			}
			pod := gpuPod("next", c.asks)
			pod.Spec.Priority = ptr.To(c.priority)
			got, _, err := b.attempt(t, "nominates", pod)
			if c.want == "" {
				if err == nil {
					t.Fatalf("it is on device %s", got.Annotations[kube.GPUIndexAnnotation])
				}
				return
			}
			if err != nil || got.Annotations[kube.GPUIndexAnnotation] != c.want {
				t.Errorf("it is on %v, want %s: %v", got.Annotations, c.want, err)
			}
		})
	}
}

// A lost device does not renumber the others: pods keep theirs, and an idle one is closed, the same one
// until the node is complete again.
func TestLostDevices(t *testing.T) {
	b := newBed(t, "loses", Args{Policy: "gpu-best-fit"})
	whole := gpuNode("n", "T4", 3)
	running := []*v1.Pod{on("n", "2", "last", cluster.Resources{GPU: 1}, 0), on("n", "1", "middle", share(500), 0)}
	b.load(t, clusterState{nodes: []*v1.Node{whole}, pods: running})
	ill := whole.DeepCopy()
	ill.Status.Allocatable[kube.GPUResource] = resource.MustParse("2")
	ill.Status.Allocatable[kube.GPUCountResource] = resource.MustParse("2")
	ill.Status.Allocatable[kube.GPUMilliResource] = resource.MustParse("2000")
	devices := func() []int64 {
		b.refresh(t, "loses")
		info := fatal.Value(b.snapshot("loses").NodeInfos().Get("n"))(t)
		m := mirror{reserved: b.reservations()}
		m.sync([]fwk.NodeInfo{info}, false)
		g := &gpuShares{handle: b.plugin.handle, profile: &profile{reserved: b.reservations()}, books: map[string]book{}}
		n := g.devicesOf(info, "", nil)
		if !slices.Equal(n.GPUs, m.snapshot.Nodes[0].GPUs) {
			t.Errorf("the books say %v, the mirror %v", n.GPUs, m.snapshot.Nodes[0].GPUs)
		}
		return n.GPUs
	}
	expect := func(when string, want ...int64) {
		t.Helper()
		if got := devices(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("complete", 0, 500, 1000)
	b.sched.Cache.UpdateNode(b.log, whole, ill)
	expect("one is lost", 1000, 500, 1000)
	fatal.If(t, b.sched.Cache.RemovePod(b.log, running[0]))
	expect("a healthy one is idle", 1000, 500, 0)
	b.sched.Cache.UpdateNode(b.log, ill, whole)
	expect("complete again", 0, 500, 0)
	none := ill.DeepCopy()
	for _, name := range []v1.ResourceName{kube.GPUResource, kube.GPUCountResource, kube.GPUMilliResource} {
		none.Status.Allocatable[name] = resource.MustParse("0")
	}
	b.sched.Cache.UpdateNode(b.log, whole, none)
	expect("the device plugin is away", 1000, 500, 1000)
}
