package plugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
)

// testView returns a view of two nodes with GPUs and a pending pod that requests a share.
func testView(typical *fragmentation.Typical) view {
	return view{
		snapshot: &cluster.Snapshot{Nodes: []*cluster.Node{twoGPUs("a"), twoGPUs("b")}},
		pod:      &cluster.Pod{Name: "p", Requests: share(300)}, rows: []int32{0, 1}, typical: typical, began: time.Now(),
	}
}

func twoGPUs(name string) *cluster.Node {
	return &cluster.Node{
		Name: name, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 1 << 30, GPU: 2, Pods: 10},
		GPUModel: "T4", GPUs: make([]int64, 2),
	}
}

// A decider keeps its policy from one decision to the next, and makes a new one for other typical pods
// and after forget.
func TestDecidersKeepTheirPolicy(t *testing.T) {
	first, second := fragmentation.NewTypical([]fragmentation.Demand{{Requests: share(500), Count: 1}}), fragmentation.NewTypical(nil)
	fgd, err := heuristic.Find("fgd")
	fatal.If(t, err)
	made := 0
	h := &heuristicDecider{Heuristic: fgd}
	inner := h.New
	h.New = func(s policy.Setting) policy.Policy { made++; return inner(s) }
	scores := make([]float32, 2)
	for i, c := range []struct {
		typical *fragmentation.Typical
		forget  bool
		want    int // policies made so far
	}{{first, false, 1}, {first, false, 1}, {second, false, 2}, {second, true, 3}} {
		if c.forget {
			h.forget()
		}
		if err := h.score(testView(c.typical), scores); err != nil || made != c.want {
			t.Errorf("decision %d: %d policies were made, want %d; %v", i, made, c.want, err)
		}
	}
}

// Without a network every decision fails, and says why.
func TestNoDecider(t *testing.T) {
	var d noDecider
	if err := d.score(testView(nil), make([]float32, 2)); !errors.Is(err, errNoNetwork) || reasonOf(err) != reasonNoModel {
		t.Errorf("score: %v", err)
	}
	if on, err := d.devices(testView(nil), false); on != 0 || !errors.Is(err, errNoNetwork) {
		t.Errorf("devices: %v, %v", on, err)
	}
}

// A network that misses its deadline names it.
func TestDeadlineIsNamed(t *testing.T) {
	d := &networkDecider{net: load(t, untrained(t, 1, nil)), deadline: time.Nanosecond}
	v := testView(nil)
	v.began = time.Now().Add(-time.Hour)
	err := d.score(v, make([]float32, 2))
	if !errors.Is(err, infer.ErrDeadline) || !strings.Contains(err.Error(), "1ns") || reasonOf(err) != reasonDeadline {
		t.Errorf("%v", err)
	}
}

// A network that sees no devices chooses a pod's devices without a pass, whatever its deadline.
func TestDevicesWithoutAPass(t *testing.T) {
	d := &networkDecider{net: load(t, untrained(t, 1, nil)), deadline: time.Nanosecond}
	v := testView(nil)
	v.rows, v.began = v.rows[:1], time.Now().Add(-time.Hour)
	if on, err := d.devices(v, false); on != cluster.Device(0) || err != nil || d.made != nil {
		t.Errorf("devices %b, %v; a policy was made: %v", on, err, d.made != nil)
	}
}

// The shipped network for mixed clusters keeps the CPU beside idle GPUs for GPU pods, where a network for balance chooses that
// node, and places a GPU pod there.
func TestMixedNetworkKeepsCPUForGPUs(t *testing.T) {
	withCPU := func(p *v1.Pod, cpu string) *v1.Pod {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
		return p
	}
	gpu := gpuNode("gpu", "G2", 8)
	gpu.Status.Capacity[v1.ResourceCPU], gpu.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("48"), resource.MustParse("48")
	state := clusterState{nodes: []*v1.Node{gpu}}
	for i := range 3 {
		n := st.MakeNode().Name(fmt.Sprint("ordinary", i)).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi",
			v1.ResourcePods: "110"}).Obj()
		p := withCPU(gpuPod("on-"+n.Name, cluster.Resources{}), "24")
		p.Spec.NodeName = n.Name
		state.nodes, state.pods = append(state.nodes, n), append(state.pods, p)
	}
	for variant, want := range map[string]string{"gnn": "gpu", "mixed": "ordinary"} {
		b := newBed(t, variant, Args{Variant: variant, Preferences: preference.Off})
		unload := b.load(t, state)
		train, _, err := b.attempt(t, variant, withCPU(gpuPod("train", cluster.Resources{GPU: 1}), "2"))
		if err != nil || train.Spec.NodeName != "gpu" || train.Annotations[kube.GPUIndexAnnotation] == "" {
			t.Errorf("%s: the GPU pod %+v; %v", variant, train, err)
		}
		web, _, err := b.attempt(t, variant, withCPU(gpuPod("web", cluster.Resources{}), "40"))
		if err != nil || !strings.HasPrefix(web.Spec.NodeName, want) {
			t.Errorf("%s placed the pod without GPUs on %q, want %s; %v", variant, web.Spec.NodeName, want, err)
		}
		for _, p := range []*v1.Pod{train, web} {
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, p))
		}
		unload()
	}
}
