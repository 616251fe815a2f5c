package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/kubeconfig"
)

const (
	namespace = "soak"
	urgent    = "soak-urgent" // priority class of pods that preempt others
)

// kind is a kind of pods. Its weight is the probability of the kind in percent.
type kind struct {
	weight int
	pod    func(r *rand.Rand) (cluster.Resources, decoration)
}

// decoration adds its kind's fields, apart from requests, to a pod.
type decoration func(p *corev1.Pod)

// kinds are the kinds of pods that come and go. All but tooLarge fit on an empty node.
var kinds = []kind{
	{22, func(r *rand.Rand) (cluster.Resources, decoration) { return cpu(r, 100, 1000), nil }},
	{10, func(r *rand.Rand) (cluster.Resources, decoration) { return cpu(r, 1000, 6000), nil }},
	{12, func(r *rand.Rand) (cluster.Resources, decoration) { return cpu(r, 100, 1000), spread }},
	{12, func(r *rand.Rand) (cluster.Resources, decoration) { return cpu(r, 100, 1000), preferZone }},
	{6, func(r *rand.Rand) (cluster.Resources, decoration) { return cpu(r, 1000, 6000), important }},
	{12, func(r *rand.Rand) (cluster.Resources, decoration) { return share(r), nil }},
	{4, func(r *rand.Rand) (cluster.Resources, decoration) { return share(r), onA100 }},
	{3, func(r *rand.Rand) (cluster.Resources, decoration) { return devices(r), nil }},
	{4, func(r *rand.Rand) (cluster.Resources, decoration) { return share(r), important }},
	{6, func(r *rand.Rand) (cluster.Resources, decoration) { return claimed(share(r)) }},
	{3, func(r *rand.Rand) (cluster.Resources, decoration) { return claimed(devices(r)) }},
	{2, claimedInTwo},
	{3, extended},
	{1, func(*rand.Rand) (cluster.Resources, decoration) {
		return cluster.Resources{MilliCPU: 10_000_000}, tooLarge
	}},
}

func between(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low+1) }

// cpu draws a request in steps of a tenth of a core. Schedulers count the shapes of pods, up to some
// thousands; with few shapes their memory is full soon.
func cpu(r *rand.Rand, low, high int64) cluster.Resources {
	milli := 100 * between(r, low/100, high/100)
	return cluster.Resources{MilliCPU: milli, Memory: milli << 21} // 2 GiB a core
}

func share(r *rand.Rand) cluster.Resources {
	out := cpu(r, 100, 1000)
	out.GPUMilli = shareStep * between(r, leastShare, mostShare)
	return out
}

// The shares of a device that pods request are multiples of shareStep thousandths, and the numbers of devices powers of two.
const (
	shareStep  = 50
	leastShare = int64(2)
	mostShare  = int64(18)
	wholeSizes = 3
)

func devices(r *rand.Rand) cluster.Resources {
	out := cpu(r, 500, 2000)
	out.GPU = 1 << r.IntN(wholeSizes)
	return out
}

func important(p *corev1.Pod) { p.Spec.PriorityClassName = urgent }
func onA100(p *corev1.Pod)    { p.Annotations[kube.GPUModelAnnotation] = "A100" }
func tooLarge(p *corev1.Pod)  { p.Labels[tooLargeLabel] = "true" }

// tooLargeLabel marks pods that fit on no node.
const tooLargeLabel = "soak-too-large"

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

// specOf returns the spec of a pod for a scheduler.
func specOf(requests cluster.Resources, scheduler string) corev1.PodSpec {
	return corev1.PodSpec{
		SchedulerName: scheduler,
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10",
			Resources: corev1.ResourceRequirements{Requests: kube.NonzeroResourceList(requests), Limits: kube.GPUResourceList(requests)},
		}},
	}
}

// newPod returns a random pod for a scheduler.
func newPod(r *rand.Rand, number int, scheduler string) *corev1.Pod {
	at := r.IntN(100)
	chosen := kinds[0]
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			chosen = k
			break
		}
	}
	requests, decorate := chosen.pod(r)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("soak-%07d", number), Namespace: namespace, Labels: map[string]string{"soak": "pod"}, Annotations: map[string]string{},
		},
		Spec: specOf(requests, scheduler),
	}
	maps.Copy(p.Annotations, kube.GPUAnnotations(requests, nil))
	if s := r.Int64N(4); s > 0 { // until the pod ends, after it is deleted gracefully
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: s}}}
	}
	if decorate != nil {
		decorate(p)
	}
	return p
}

// pools returns the node pools of the cluster: about two thirds of the nodes without GPUs and the rest with eight each. The
// A100 are for annotations, the V100 for claims, and the T4 for both.
func pools(nodes int) (out []pool) {
	gpus, claimed := max(nodes/4, 2), max(nodes/10, 1)
	plain := cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}
	gpu := cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110, GPU: 8}
	inSlices := gpu
	inSlices.GPU = 0
	return []pool{
		{name: "cpu", count: nodes - gpus - claimed, has: plain},
		{name: "a100", count: (gpus + 1) / 2, has: gpu, model: "A100"},
		{name: "t4", count: gpus / 2, has: gpu, model: "T4", slices: 8},
		{name: "v100", count: claimed, has: inSlices, model: "V100", slices: 8},
	}
}

// pool is a pool of equal nodes.
type pool struct {
	name   string
	count  int
	has    cluster.Resources
	model  string // of its GPUs
	slices int    // GPUs of each node in ResourceSlices, in shares of a thousandth
}

// poolFile returns the pools of a number of nodes as a file of `kwokcluster up --pools`.
func poolFile(nodes int) ([]byte, error) {
	var entries []map[string]any
	for _, p := range pools(nodes) {
		entries = append(entries, p.entry())
	}
	return yaml.Marshal(map[string]any{"pools": entries})
}

// entry returns the pool as it stands in the file of `kwokcluster up --pools`.
func (p pool) entry() map[string]any {
	e := map[string]any{"name": p.name, "count": p.count, "capacity": kube.Capacity(p.has), "zones": []string{"a", "b", "c"}}
	if p.model != "" {
		e["labels"] = map[string]string{kube.GPUModelLabel: p.model}
	}
	if p.slices > 0 {
		e["devices"] = []map[string]any{{"product": p.model, "count": p.slices, "shares": cluster.DeviceMilli}}
	}
	return e
}

// machine is the capacity of a node.
type machine struct {
	cluster.Resources     // GPU: the number of devices for annotations
	slices            int // devices in ResourceSlices
}

// machines returns the capacity of each node of the pools.
func machines(pools []pool) map[string]machine {
	out := map[string]machine{}
	for _, p := range pools {
		for i := range p.count {
			out[fmt.Sprintf("%s-%d", p.name, i)] = machine{p.has, p.slices}
		}
	}
	return out
}

// replicas is the number of pods of each ReplicaSet. Only pods with a controller move.
const replicas = 5

// createSets creates for each profile a ReplicaSet. The pods of a third of them have shares of GPUs, and those of another third claims.
func (s *soak) createSets(ctx context.Context) error {
	r := rand.New(rand.NewPCG(s.config.Seed, 2))
	for i, profile := range profileNames {
		requests := cpu(r, 100, 1000)
		if i%3 == 1 {
			requests = share(r)
		}
		pod := corev1.Pod{Spec: specOf(requests, profile)}
		if i%3 == 2 {
			claim(&pod, templateOf(share(r)))
		}
		name := "moved-" + profile
		labels := map[string]string{"set": name}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: kube.GPUAnnotations(requests, nil)},
			Spec:       pod.Spec,
		}
		_, err := s.client.AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the ReplicaSet %s: %w", name, err)
		}
	}
	return nil
}

// orphanSets deletes the ReplicaSets and leaves their pods.
func (s *soak) orphanSets(ctx context.Context) {
	sets := s.client.AppsV1().ReplicaSets(namespace)
	for ctx.Err() == nil {
		list, err := sets.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			return
		}
		if err == nil {
			// One that is not deleted yet is deleted again next time.
			_ = sets.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}, metav1.ListOptions{})
		}
		pause(ctx, pollEvery)
	}
}

// mover returns the process that moves pods all the time.
func (f *fleet) mover() *process {
	return &process{name: "defrag", output: f.file("defrag.log"), pause: time.Second, command: func() *exec.Cmd {
		return exec.Command(f.config.Scheduler, "defrag", "--kubeconfig", kubeconfig.SimulatedKubeconfig(f.folder()), "--apply", "--every", "2s",
			"--objective", "balance,gpu-fragmentation", "--moves", "8", "--min-age", "0s", "--wait", "20s",
			"--log-dir", "", "--log-level", "warn", "--output", "json")
	}}
}
