package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// taint is the usual taint of nodes with GPUs.
var taint = v1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: v1.TaintEffectNoSchedule}

// tolerate lets a pod run on nodes with the taint.
func tolerate(p *v1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpExists})
}

// taintedPods returns pods of several shapes. Every fifth requests no GPU and waits for the node of its own.
func taintedPods() (pods []*v1.Pod) {
	shapes := []cluster.Resources{{MilliCPU: 6000, GPUMilli: 460}, {MilliCPU: 8000, GPU: 1}, {MilliCPU: 4000, GPUMilli: 300},
		{MilliCPU: 16_000, GPU: 2}, {MilliCPU: 1000}}
	for i := range 30 {
		p := gpuPod(fmt.Sprint("p", i), shapes[i%len(shapes)])
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(shapes[i%len(shapes)].MilliCPU,
			resource.DecimalSI)}
		for name, q := range p.Spec.Containers[0].Resources.Limits {
			p.Spec.Containers[0].Resources.Requests[name] = q
		}
		if shapes[i%len(shapes)].TotalGPUMilli() == 0 {
			p.Spec.NodeSelector = map[string]string{"pool": "cpu"}
		}
		pods = append(pods, p)
	}
	return pods
}

// With every node with GPUs tainted and every pod with GPUs tolerating it, nodes and devices are those
// without taints: with the network's own typical pods and with those of a file, where no pod tolerates
// anything.
func TestTaintedNodesThatAllTolerate(t *testing.T) {
	list, err := filepath.Abs("../../workload/trace/openb/testdata/pods.csv")
	fatal.If(t, err)
	for name, args := range map[string]Args{"family": {Variant: "gpu-gnn"}, "file": {Variant: "gpu-gnn", Workload: list},
		"fgd": {Policy: "fgd"}} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, tainted := range []bool{false, true} {
				profile := fmt.Sprint(name, "-", tainted)
				b := newBed(t, profile, args)
				cpu := gpuNode("cpu", "", 0)
				cpu.Labels["pool"] = "cpu"
				state := clusterState{nodes: []*v1.Node{cpu}}
				for i, devices := range []int64{8, 4, 2, 8, 1, 2} {
					n := gpuNode(fmt.Sprint("n", i), []string{"T4", "P100", "G2"}[i%3], devices)
					if tainted {
						n.Spec.Taints = []v1.Taint{taint}
					}
					state.nodes = append(state.nodes, n)
				}
				b.load(t, state)
				var got []string
				for _, p := range taintedPods() {
					if tainted && p.Spec.NodeSelector == nil {
						tolerate(p)
					}
					bound, _, err := b.attempt(t, profile, p)
					if err != nil {
						got = append(got, "none")
						continue
					}
					got = append(got, bound.Spec.NodeName+" "+bound.Annotations[kube.GPUIndexAnnotation])
				}
				if n, err := Fallbacks(profile); n != 0 || err != nil {
					t.Errorf("%d decisions fell back, %v", n, err)
				}
				if want == nil {
					want = got
				}
				if slices.Index(got, "none") == 0 || len(slices.Compact(slices.Sorted(slices.Values(got)))) < 10 {
					t.Errorf("too few places: %v", got)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// The typical pods have the tolerations of the pods that arrive, as soon as these differ.
func TestDemandTolerates(t *testing.T) {
	d, err := newDemandTracker("ours", "../../workload/trace/openb/testdata/pods.csv")
	fatal.If(t, err)
	tainted := &cluster.Node{Taints: []cluster.Taint{{Key: "a", Effect: cluster.NoSchedule}}, GPUs: []int64{0},
		Allocatable: cluster.Resources{MilliCPU: 64_000, GPU: 1, Pods: 10}}
	tolerant := &cluster.Pod{Requests: share(500), Tolerations: []cluster.Toleration{{Key: "a", Exists: true}}}
	if d.typical(nil).Open(tainted) {
		t.Error("open before any pod tolerates the taint")
	}
	d.countPending(&cluster.Pod{Requests: share(500)})
	closed := d.typical(nil)
	if closed.Open(tainted) || closed.Fragmentation(tainted) != cluster.DeviceMilli {
		t.Error("open to pods that do not tolerate the taint")
	}
	d.countPending(tolerant)
	half := d.typical(nil)
	if !half.Open(tainted) {
		t.Fatal("not open to a pod that tolerates the taint")
	}
	for range 100 {
		d.countPending(tolerant)
	}
	if most := d.typical(nil); !(most.Fragmentation(tainted) < half.Fragmentation(tainted)) {
		t.Errorf("fragmentation %v with half of the pods tolerating, %v with most", half.Fragmentation(tainted), most.Fragmentation(tainted))
	}
	if d.typical(nil) != d.typical(nil) {
		t.Error("the typical pods are made again without a change")
	}
}

// The number of kinds of tolerations is bounded.
func TestTolerationsAreBounded(t *testing.T) {
	d, err := newDemandTracker("ours", "")
	fatal.If(t, err)
	for i := range 2 * remembered {
		d.countPending(&cluster.Pod{Requests: share(500), Tolerations: []cluster.Toleration{{Key: fmt.Sprint(i), Exists: true}}})
		if n := len(d.withGPU.kinds); n > maxTolerations+1 {
			t.Fatalf("%d kinds are kept", n)
		}
	}
}
