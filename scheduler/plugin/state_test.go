package plugin

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster/kube"
)

// clusterState holds nodes, the pods that run on them, and one pending pod.
type clusterState struct {
	nodes   []*v1.Node
	pods    []*v1.Pod
	waiting *v1.Pod
}

var (
	zones  = []string{"a", "b", "c", ""}
	apps   = []string{"web", "db", "batch"}
	images = []string{"img-a:1", "img-b:1"}
)

// service selects the pods of one app, so that the default topology spreading applies to them.
func service() *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
}

func drawNode(t *rapid.T, name string) *v1.Node {
	res := map[v1.ResourceName]string{
		v1.ResourceCPU:    fmt.Sprint(rapid.IntRange(2, 64).Draw(t, "cpu")),
		v1.ResourceMemory: fmt.Sprintf("%dGi", rapid.IntRange(4, 256).Draw(t, "memory")),
		v1.ResourcePods:   fmt.Sprint(rapid.IntRange(20, 110).Draw(t, "slots")),
	}
	if rapid.Bool().Draw(t, "gpu") {
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		res[kube.GPUResource] = fmt.Sprint(gpus)
		if rapid.Bool().Draw(t, "shared") {
			res[kube.GPUCountResource], res[kube.GPUMilliResource] = fmt.Sprint(gpus), fmt.Sprint(1000*gpus)
		}
	}
	n := st.MakeNode().Name(name).Capacity(res).Label(v1.LabelHostname, name).Label("disk",
		rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk"))
	if m := rapid.SampledFrom([]string{"", "T4", "G2"}).Draw(t, "model"); m != "" {
		n.Label(kube.GPUModelLabel, m)
	}
	if z := rapid.SampledFrom(zones).Draw(t, "zone"); z != "" {
		n.Label(v1.LabelTopologyZone, z)
	}
	if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
		n.Taints([]v1.Taint{{Key: "soft", Value: "1", Effect: v1.TaintEffectPreferNoSchedule}})
	}
	if rapid.Bool().Draw(t, "has image") {
		n.Images(map[string]int64{rapid.SampledFrom(images).Draw(t, "image"): int64(rapid.IntRange(50, 900).Draw(t, "MB")) << 20})
	}
	return n.Obj()
}

// drawPod draws a pod with one or more containers, with or without requests, init containers, sidecars,
// overhead and GPUs.
func drawPod(t *rapid.T, name string) *v1.Pod {
	ask := func(label string, gpu bool) map[v1.ResourceName]string {
		r := map[v1.ResourceName]string{}
		if rapid.Bool().Draw(t, label+" asks cpu") {
			r[v1.ResourceCPU] = fmt.Sprintf("%dm", rapid.IntRange(0, 12).Draw(t, label+" cpu")*100)
		}
		if rapid.Bool().Draw(t, label+" asks memory") {
			r[v1.ResourceMemory] = fmt.Sprintf("%dMi", rapid.IntRange(0, 12).Draw(t, label+" memory")*100)
		}
		if gpu && rapid.IntRange(0, 4).Draw(t, label+" asks gpu") == 0 {
			r[kube.GPUResource] = "1"
		}
		return r
	}
	p := st.MakePod().Name(name).UID(name).Namespace("default").Label("app", rapid.SampledFrom(apps).Draw(t, "app")).Req(ask("first", true))
	if rapid.Bool().Draw(t, "second") {
		p.Req(ask("second", false))
	}
	if rapid.IntRange(0, 2).Draw(t, "init") == 0 {
		p.InitReq(ask("init", false))
	}
	if rapid.IntRange(0, 3).Draw(t, "sidecar") == 0 {
		p.SidecarReq(ask("sidecar", false))
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = rapid.SampledFrom(images).Draw(t, "image")
	}
	if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
		p.Overhead(st.MakeNode().Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "50m", v1.ResourceMemory: "64Mi"}).Status.Capacity)
		delete(p.Spec.Overhead, v1.ResourcePods)
	}
	drawShare(t, p)
	return p.Obj()
}

// drawShare makes some of the pods without GPU request a share of one.
func drawShare(t *rapid.T, p *st.PodWrapper) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if _, whole := c.Resources.Requests[kube.GPUResource]; whole {
			return
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "asks share") > 0 {
		return
	}
	milli := fmt.Sprint(100 * rapid.IntRange(1, 9).Draw(t, "tenths"))
	p.Annotation(kube.GPUMilliAnnotation, milli)
	if rapid.Bool().Draw(t, "by request too") {
		p.Req(map[v1.ResourceName]string{kube.GPUMilliResource: milli})
	}
	if rapid.Bool().Draw(t, "indexed") {
		p.Annotation(kube.GPUIndexAnnotation, fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "device")))
	}
	if rapid.Bool().Draw(t, "of a model") {
		p.Annotation(kube.GPUModelAnnotation, "T4|A10")
	}
}

// prefer gives a pod some preferences that upstream's score plugins read.
func prefer(t *rapid.T, pod *v1.Pod) *v1.Pod {
	p := &st.PodWrapper{Pod: *pod}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom(apps).Draw(t, "other")}}
	if rapid.Bool().Draw(t, "node affinity") {
		p.NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions)
		// The same as a preference; upstream's helper makes requirements only.
		a := p.Spec.Affinity.NodeAffinity
		term := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		a.RequiredDuringSchedulingIgnoredDuringExecution = nil
		a.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{{Weight: 10, Preference: term}}
	}
	if rapid.Bool().Draw(t, "pod affinity") {
		p.PodAffinity(v1.LabelTopologyZone, other, st.PodAffinityWithPreferredReq)
	}
	if rapid.Bool().Draw(t, "pod anti-affinity") {
		p.PodAntiAffinity(v1.LabelHostname, other, st.PodAntiAffinityWithPreferredReq)
	}
	if rapid.Bool().Draw(t, "spread") {
		p.SpreadConstraint(1, v1.LabelTopologyZone, v1.ScheduleAnyway, other, nil, nil, nil, nil)
	}
	if rapid.Bool().Draw(t, "tolerates") {
		p.Toleration("soft")
	}
	return p.Obj()
}

// drawState draws a cluster of 2 to 10 nodes, which the pending pod usually fits on.
func drawState(t *rapid.T) clusterState {
	var c clusterState
	for i := range rapid.IntRange(2, 10).Draw(t, "nodes") {
		c.nodes = append(c.nodes, drawNode(t, fmt.Sprintf("n%d", i)))
	}
	for i := range rapid.IntRange(0, 15).Draw(t, "pods") {
		p := prefer(t, drawPod(t, fmt.Sprintf("p%d", i)))
		p.Spec.NodeName = rapid.SampledFrom(c.nodes).Draw(t, "on").Name
		c.pods = append(c.pods, p)
	}
	c.waiting = prefer(t, drawPod(t, "waiting"))
	return c
}
