package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// edit changes an annotation of a running pod, as its owner can.
func (b *bed) edit(t rapid.TB, p *v1.Pod, key, value string) *v1.Pod {
	edited := p.DeepCopy()
	edited.Annotations[key] = value
	fatal.If(t, b.sched.Cache.UpdatePod(b.log, p, edited))
	return edited
}

// A running pod that names another device, or another amount, stays where it is: its neighbour's device
// is not given away, nor its own. That holds for pods that were seen first and for those that were
// reserved.
func TestEditedAnnotationsMoveNothing(t *testing.T) {
	for name, edits := range map[string][2]string{
		"device": {kube.GPUIndexAnnotation, "0"},
		"none":   {kube.GPUIndexAnnotation, ""},
		"amount": {kube.GPUMilliAnnotation, "1"},
	} {
		for _, policy := range []string{"fgd", "gpu-best-fit"} {
			t.Run(name+" "+policy, func(t *testing.T) {
				b := newBed(t, "pinned", Args{Policy: policy})
				honest, liar := on("n", "0", "honest", share(600), 0), on("n", "1", "liar", share(900), 0)
				delete(liar.Spec.Containers[0].Resources.Requests, kube.GPUMilliResource) // only annotations say it
				b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{honest, liar}})
				first, _, err := b.attempt(t, "pinned", gpuPod("first", share(100)))
				if err != nil || first.Annotations[kube.GPUIndexAnnotation] == "" {
					t.Fatal(err)
				}
				liar = b.edit(t, liar, edits[0], edits[1])
				fatal.If(t, b.sched.Cache.AddPod(b.log, first))
				first = b.edit(t, first, kube.GPUIndexAnnotation, "0-1")
				fatal.If(t, b.sched.Cache.RemovePod(b.log, first))
				for _, p := range []string{"pinned", defaultProfile} {
					second, _, err := b.attempt(t, p, gpuPod("second", share(400)))
					if err != nil || second.Annotations[kube.GPUIndexAnnotation] != "0" {
						t.Fatalf("%s: it is on device %v: %v", p, second, err)
					}
					fatal.If(t, b.sched.Cache.ForgetPod(b.log, second))
				}
			})
		}
	}
}

// A pod that was reserved keeps its devices, whatever its owner has written by the time that the
// snapshot shows it.
func TestReservedPodsArePinned(t *testing.T) {
	b := newBed(t, "pinned", Args{Policy: "gpu-best-fit"})
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})
	for i, want := range []string{"0", "1"} {
		p, _, err := b.attempt(t, "pinned", gpuPod(fmt.Sprint("p", i), share(900)))
		if err != nil || p.Annotations[kube.GPUIndexAnnotation] != want {
			t.Fatalf("%v, %v", p, err)
		}
		// The informer shows the bound pod with another annotation at once.
		edited := p.DeepCopy()
		edited.Annotations[kube.GPUIndexAnnotation] = fmt.Sprint(1 - i)
		fatal.If(t, b.sched.Cache.AddPod(b.log, edited))
	}
	if n := len(b.reservations().pins["n"]); n != 2 {
		t.Errorf("%d pods are pinned", n)
	}
	b.refresh(t, "pinned")
	info, err := b.snapshot("pinned").NodeInfos().Get("n")
	fatal.If(t, err)
	n := &cluster.Node{Name: "n", GPUs: make([]int64, 2)}
	b.reservations().place(n, info, func(p *v1.Pod, _ kube.RunningPod) bool { return p.Name == "p0" })
	if n.GPUs[0] != 900 || n.GPUs[1] != 0 {
		t.Errorf("p0 counts on %v", n.GPUs)
	}
}

// Pins end with their pods and nodes.
func TestPinsEnd(t *testing.T) {
	b := newBed(t, "ends", Args{Policy: "gpu-best-fit"})
	for i := range 300 {
		name := fmt.Sprint("n", i)
		unload := b.load(t, clusterState{nodes: []*v1.Node{gpuNode(name, "T4", 2)}, pods: []*v1.Pod{on(name, "0", "a"+name, share(1), 0)}})
		if i%2 == 0 {
			b.refresh(t, "ends")
			b.filter(t, "ends", gpuPod("next", share(100)))
		}
		unload()
	}
	if n := len(b.reservations().pins); n > 110 {
		t.Errorf("pods of %d nodes are pinned, and no node is left", n)
	}
	p := on("n", "0", "p", share(1), 0)
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{p}})
	for _, want := range []int{1, 0} {
		b.refresh(t, "ends")
		b.filter(t, "ends", gpuPod("next", share(100)))
		if n := len(b.reservations().pins["n"]); n != want {
			t.Errorf("%d pods are pinned, want %d", n, want)
		}
		if want == 1 {
			fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
		}
	}
}

// A device that is given twice is logged and counted once for each pod.
func TestConflictsAreReportedOnce(t *testing.T) {
	var lines []string
	b := newBed(t, "conflicts", Args{Policy: "gpu-best-fit"})
	b.reservations().log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	count := func() int {
		n, err := testutil.GetCounterMetricValue(deviceConflicts)
		fatal.If(t, err)
		return int(n)
	}
	before := count()
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})
	ours, _, err := b.attempt(t, "conflicts", gpuPod("ours", share(600)))
	fatal.If(t, err)
	device := ours.Annotations[kube.GPUIndexAnnotation]
	look := func(asks int64) string {
		b.refresh(t, "conflicts")
		pod := gpuPod("next", share(asks))
		pod.UID = types.UID(fmt.Sprint(asks))
		b.filter(t, "conflicts", pod)
		return strings.Join(lines, "\n")
	}
	foreign := func(name, device string, r cluster.Resources) *v1.Pod {
		p := on("n", device, name, r, 0)
		p.Spec.SchedulerName = "other"
		fatal.If(t, b.sched.Cache.AddPod(b.log, p))
		return p
	}
	if out := look(1); len(lines) > 0 || count() != before {
		t.Fatalf("nothing is wrong: %s", out)
	}
	foreign("twice", device, share(500))
	for range 3 {
		look(2)
	}
	if out := look(3); len(lines) != 1 || count() != before+1 || !strings.Contains(out, "twice") || !strings.Contains(out, `"other"`) {
		t.Errorf("counted %d: %s", count()-before, out)
	}
	odd := foreign("no such device", "7", share(1))
	if out := look(6); len(lines) != 1 {
		t.Errorf("a device that does not exist is given twice: %s", out)
	}
	fatal.If(t, b.sched.Cache.RemovePod(b.log, odd))
	foreign("unnamed", "", cluster.Resources{GPU: 2}) // for which no device is idle
	if out := look(4); len(lines) != 2 || count() != before+2 || !strings.Contains(out, "unnamed") {
		t.Errorf("counted %d: %s", count()-before, out)
	}
}

// A pod without GPUs that names devices holds none, and loses the annotation's value when it is bound.
func TestIndexOfAPodWithoutGPUs(t *testing.T) {
	b := newBed(t, "index", Args{Policy: "gpu-best-fit"})
	cpu := gpuPod("cpu", cluster.Resources{})
	cpu.Annotations = map[string]string{kube.GPUIndexAnnotation: "0", "kept": "x"}
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 1)}})
	p, state, err := b.attempt(t, "index", cpu)
	fatal.If(t, err)
	if p.Annotations[kube.GPUIndexAnnotation] != "" || p.Annotations["kept"] != "x" {
		t.Errorf("the copy has %v", p.Annotations)
	}
	if cpu.Annotations[kube.GPUIndexAnnotation] != "0" {
		t.Error("the pod in the queue is changed")
	}
	if on, has := devicesKey.Find(state); !has || on != 0 {
		t.Errorf("its binding writes %v, %v", on, err)
	}
	if _, _, err := b.attempt(t, "index", gpuPod("gpu", cluster.Resources{GPU: 1})); err != nil {
		t.Errorf("the device is not idle: %v", err)
	}
}
