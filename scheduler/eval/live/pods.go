package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok/nodepool"
)

// urgent is the priority class of pods that preempt others.
const urgent = "soak-urgent"

// tooLargeLabel marks pods that fit on no node.
const tooLargeLabel = "soak-too-large"

// kind is a kind of pods. Its weight is the probability of the kind in percent.
type kind struct {
	weight   int
	requests func(r *rand.Rand) cluster.Resources
	claimed  bool                // a claim asks for the GPUs
	decorate func(p *corev1.Pod) // sets other fields, if it is not nil
}

// kinds are the kinds of pods that come and go. All but those of tooLarge fit on an empty node.
var kinds = []kind{
	{22, small, false, nil},
	{10, large, false, nil},
	{12, small, false, spread},
	{12, small, false, preferZone},
	{6, large, false, important},
	{12, portion, false, nil},
	{4, portion, false, onA100},
	{3, devices, false, nil},
	{4, portion, false, important},
	{6, portion, true, nil},
	{3, devices, true, nil},
	{2, portion, true, func(p *corev1.Pod) { claim(p, cluster.Resources{GPU: 1}) }}, // two claims
	{3, small, false, extended},
	{1, func(*rand.Rand) cluster.Resources { return cluster.Resources{MilliCPU: 10_000_000} }, false, tooLarge},
}

// setKinds are the kinds of the ReplicaSets' pods.
var setKinds = []kind{{0, small, false, nil}, {0, portion, false, nil}, {0, portion, true, nil}}

// The shares of a device that pods request are multiples of shareStep thousandths, and the numbers of devices powers of two.
const (
	shareStep  = 50
	leastShare = int64(2)
	mostShare  = int64(18)
	wholeSizes = 3
)

// cpu draws a request in steps of a tenth of a core. Schedulers count the shapes of pods, up to some
// thousands; with few shapes their memory is full soon.
func cpu(r *rand.Rand, least, most int64) cluster.Resources {
	milli := 100 * (least + r.Int64N(most-least+1))
	return cluster.Resources{MilliCPU: milli, Memory: milli << 21} // 2 GiB a core
}

func small(r *rand.Rand) cluster.Resources { return cpu(r, 1, 10) }
func large(r *rand.Rand) cluster.Resources { return cpu(r, 10, 60) }

func portion(r *rand.Rand) cluster.Resources {
	out := small(r)
	out.GPUMilli = shareStep * (leastShare + r.Int64N(mostShare-leastShare+1))
	return out
}

func devices(r *rand.Rand) cluster.Resources {
	out := cpu(r, 5, 20)
	out.GPU = 1 << r.IntN(wholeSizes)
	return out
}

func important(p *corev1.Pod) { p.Spec.PriorityClassName = urgent }
func onA100(p *corev1.Pod)    { p.Annotations[kube.GPUModelAnnotation] = "A100" }
func tooLarge(p *corev1.Pod)  { p.Labels[tooLargeLabel] = "true" }

func spread(p *corev1.Pod) {
	p.Labels["app"] = "spread"
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}},
	}}
}

func preferZone(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"},
			}}},
		}},
	}}
}

// extended asks for a device as kube.GPUResource, which nodes offer or a DeviceClass serves.
func extended(p *corev1.Pod) {
	main := &p.Spec.Containers[0].Resources
	main.Limits = kube.GPUResourceList(cluster.Resources{GPU: 1})
	main.Requests[kube.GPUResource] = main.Limits[kube.GPUResource]
}

// claim lets a pod ask for the GPUs of r by a claim.
func claim(p *corev1.Pod, r cluster.Resources) {
	name, template := fmt.Sprint("gpu-", len(p.Spec.ResourceClaims)), templateOf(r)
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template})
	main := &p.Spec.Containers[0].Resources
	main.Claims = append(main.Claims, corev1.ResourceClaim{Name: name})
}

// templateOf names the template of claims for the GPUs of r.
func templateOf(r cluster.Resources) string {
	if r.GPU > 0 {
		return fmt.Sprint("whole-", r.GPU)
	}
	return fmt.Sprint("share-", r.GPUMilli)
}

// templates are the requests for which there are templates: all that claims may ask for.
func templates() (out []cluster.Resources) {
	for n := leastShare; n <= mostShare; n++ {
		out = append(out, cluster.Resources{GPUMilli: shareStep * n})
	}
	for i := range wholeSizes {
		out = append(out, cluster.Resources{GPU: 1 << i})
	}
	return out
}

// pod draws a pod for a scheduler.
func (k kind) pod(r *rand.Rand, name, scheduler string) *corev1.Pod {
	requests := k.requests(r)
	asked := requests
	if k.claimed {
		requests.GPU, requests.GPUMilli = 0, 0
	}
	p := Pod(name, scheduler, &cluster.Pod{Requests: requests})
	if k.claimed {
		claim(p, asked)
	}
	if k.decorate != nil {
		k.decorate(p)
	}
	return p
}

// newPod draws a pod of one of the kinds.
func newPod(r *rand.Rand, number int64, scheduler string) *corev1.Pod {
	i, at := 0, r.IntN(100)
	for at >= kinds[i].weight {
		at -= kinds[i].weight
		i++
	}
	p := kinds[i].pod(r, fmt.Sprintf("soak-%07d", number), scheduler)
	if s := r.Int64N(4); s > 0 { // until the pod ends, after it is deleted gracefully
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: s}}}
	}
	return p
}

// replicas is the number of pods of each ReplicaSet. Only pods with a controller move.
const replicas = 5

// createObjects creates the priority class, the templates of claims, and a ReplicaSet for each profile.
func (s *soak) createObjects(ctx context.Context) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000}
	_, err := s.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	for _, asked := range templates() {
		t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateOf(asked)}}
		t.Spec.Spec = kube.Claim(asked, nil)
		_, e := s.client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, t, metav1.CreateOptions{})
		err = errors.Join(err, e)
	}
	r := rand.New(rand.NewPCG(s.config.Seed, 2))
	for i, profile := range profileNames {
		p := setKinds[i%len(setKinds)].pod(r, "", profile)
		p.Labels["set"] = profile
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "moved-" + profile}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": profile}},
			Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec},
		}}
		_, e := s.client.AppsV1().ReplicaSets(namespace).Create(ctx, set, metav1.CreateOptions{})
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("prepare the cluster: %w", err)
	}
	return nil
}

// pools returns the node pools of the cluster: about two thirds of the nodes without GPUs and the rest with eight each. The
// A100 are for annotations, the V100 for claims, and the T4 for both.
func pools(nodes int) []nodepool.Pool {
	gpus, claimed := max(nodes/4, 2), max(nodes/10, 1)
	plain := cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}
	inSlices := cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}
	gpu := inSlices
	gpu.GPU = 8
	pool := func(name string, count int, has cluster.Resources, model string, slices int) nodepool.Pool {
		p := nodepool.Pool{Name: name, Count: count, Capacity: kube.Capacity(has), Zones: []string{"a", "b", "c"}}
		if model != "" {
			p.Labels = map[string]string{kube.GPUModelLabel: model}
		}
		if slices > 0 {
			p.Devices = []nodepool.Devices{{Product: model, Count: slices, Shares: cluster.DeviceMilli}}
		}
		return p
	}
	return []nodepool.Pool{
		pool("cpu", nodes-gpus-claimed, plain, "", 0),
		pool("a100", (gpus+1)/2, gpu, "A100", 0),
		pool("t4", gpus/2, gpu, "T4", 8),
		pool("v100", claimed, inSlices, "V100", 8),
	}
}

// machine is the capacity of a node.
type machine struct {
	cluster.Resources     // GPU: the number of devices for annotations
	slices            int // devices in ResourceSlices
}

// machines returns the capacity of each node of the pools.
func machines(pools []nodepool.Pool) map[string]machine {
	out := map[string]machine{}
	for _, p := range pools {
		a := kube.AmountsIn(p.Capacity)
		m := machine{Resources: cluster.Resources{MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods, GPU: a.GPUCount}}
		for _, d := range p.Devices {
			m.slices += d.Count
		}
		for i := range p.Count {
			out[fmt.Sprintf("%s-%d", p.Name, i)] = m
		}
	}
	return out
}
