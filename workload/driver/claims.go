package driver

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// GPURequests is a way in which pods request GPUs.
type GPURequests string

const (
	// Annotated pods have resources and annotations.
	Annotated GPURequests = ""
	// Claimed pods have a ResourceClaim each, with the pod's name.
	Claimed GPURequests = "claims"
	// Extended pods request whole GPUs as kube.GPUResource, which a DeviceClass serves, and shares by claims.
	Extended GPURequests = "extended"
	// Mixed pods request GPUs in one of the other ways each, by their names. Only whole GPUs are extended resources.
	Mixed GPURequests = "mixed"
)

// GPURequestsOf returns the way that a command's flags choose. on reports whether a flag is set. Two ways are a usage error.
func GPURequestsOf(on func(flag string) bool) (chosen GPURequests, err error) {
	first := ""
	for _, x := range []struct {
		flag string
		way  GPURequests
	}{{"claims", Claimed}, {"extended-resources", Extended}, {"mixed", Mixed}} {
		switch {
		case !on(x.flag):
		case first != "":
			return "", exit.Usagef("--%s and --%s are two ways of requesting GPUs: leave one of them out", first, x.flag)
		default:
			first, chosen = x.flag, x.way
		}
	}
	return chosen, nil
}

// Of returns the form of the requests for GPUs by the pods of a Deployment: g, or one of the others if g is Mixed.
func (g GPURequests) Of(d workload.Deployment) GPURequests {
	if g != Mixed {
		return g
	}
	ways := []GPURequests{Claimed, Annotated, Extended}
	if d.Shape.Requests.GPU == 0 {
		ways = ways[:2]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.Name)) // never fails
	return ways[h.Sum32()%uint32(len(ways))]
}

// Count returns the number of claims of a plan's pods.
func (g GPURequests) Count(p workload.Plan) (n int) {
	for _, s := range p.Steps {
		if s.Action == workload.Add && g.Of(s.Deployment).claims(s.Deployment.Shape) {
			n += s.Deployment.Replicas
		}
	}
	return n
}

// claims reports whether the pods of a shape get claims.
func (g GPURequests) claims(s workload.Shape) bool {
	switch g {
	case Claimed:
		return s.Requests.GPU > 0 || s.Requests.GPUMilli > 0
	case Extended:
		return s.Requests.GPUMilli > 0
	}
	return false
}

// claimRef is the name of a pod's claim inside the pod.
const claimRef = "gpu"

// request replaces the annotated request of a template's pods for GPUs, if they request any otherwise.
func (g GPURequests) request(t *corev1.PodTemplateSpec, s workload.Shape) {
	app := &t.Spec.Containers[0]
	switch {
	case g == Annotated:
		return
	case g.claims(s):
		for name := range kube.GPUResourceList(s.Requests) {
			delete(app.Resources.Requests, name)
			delete(app.Resources.Limits, name)
		}
		app.Resources.Claims = []corev1.ResourceClaim{{Name: claimRef}}
	default:
		t.Spec.Affinity = kube.ModelAffinity(s.GPUModels)
	}
	for name := range kube.GPUAnnotations(s.Requests, s.GPUModels) {
		delete(t.Annotations, name)
	}
}

// checkClass returns an error if claims find no DeviceClass.
func (c *Config) checkClass(ctx context.Context) error {
	if c.GPUs == Annotated {
		return nil
	}
	_, err := c.Client.ResourceV1().DeviceClasses().Get(ctx, kube.GPUDriver, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return exit.New(exit.Usage, fmt.Errorf("the cluster has no DeviceClass %s, so that no claim can be served", kube.GPUDriver),
			"`kwokcluster up --nodes-file FILE --gpus slices` makes a simulated cluster that has it")
	}
	if err != nil {
		return fmt.Errorf("look for DeviceClass %s: %w", kube.GPUDriver, err)
	}
	return nil
}

// createClaims creates the claims that createPods' pods use, if they use any. They must exist before a scheduler sees the pods.
func (c *Config) createClaims(ctx context.Context, d workload.Deployment, fill int) error {
	if !c.GPUs.Of(d).claims(d.Shape) {
		return nil
	}
	for i := range d.Replicas {
		claim := &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: podName(d, i), Namespace: c.Namespace, Labels: c.deployment(d, fill).Labels},
			Spec:       kube.Claim(d.Shape.Requests, d.Shape.GPUModels),
		}
		if err := create(ctx, c.Client.ResourceV1().ResourceClaims(c.Namespace), claim); err != nil {
			return fmt.Errorf("create resource claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// createAllClaims creates the claims of the whole plan. Without times, pods follow each other so closely that a scheduler
// could see a pod before its claim, and would take a later pod first.
func (r *runner) createAllClaims(ctx context.Context) error {
	for _, s := range r.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Action != workload.Add {
			continue
		}
		if err := r.createClaims(ctx, s.Deployment, len(r.sum.Fills)+1); err != nil {
			return err
		}
		r.report(Deploying, 0, false)
	}
	return nil
}

// removeClaims deletes the claims of a Deployment's pods. Those in use go after their pods.
func (c *Config) removeClaims(ctx context.Context, d workload.Deployment) error {
	if !c.GPUs.Of(d).claims(d.Shape) {
		return nil
	}
	for i := range d.Replicas {
		err := c.Client.ResourceV1().ResourceClaims(c.Namespace).Delete(ctx, podName(d, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete resource claim %s: %w", podName(d, i), err)
		}
	}
	return nil
}

// refer lets a pod use its claim.
func (g GPURequests) refer(p *corev1.Pod, s workload.Shape) {
	if g.claims(s) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimRef, ResourceClaimName: ptr.To(p.Name)}}
	}
}

// GPUSummary is the GPU part of a fill's outcome. Amounts are in thousandths of a device.
type GPUSummary struct {
	Capacity  int64 `json:"capacity"`  // of the schedulable nodes
	Asked     int64 `json:"asked"`     // requested by the pods that were not deleted
	Allocated int64 `json:"allocated"` // requested by the pods with a node
	// AllocatedAtFull is Allocated at the first arrival with which Asked reached Capacity,
	// counting only pods that had arrived by then. It is 0 if Asked never reached Capacity, or
	// if pods were deleted.
	AllocatedAtFull int64 `json:"allocatedAtFull,omitempty"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods without a node that request a share of one
	UnscheduledWhole int `json:"unscheduledWhole"` // pods without a node that request whole ones
}

// Allocation returns the allocated fraction of the capacity.
func (g GPUSummary) Allocation() float64 { return cluster.Fraction(g.Allocated, g.Capacity) }

// AllocationAtFull returns AllocatedAtFull as a fraction of the capacity.
func (g GPUSummary) AllocationAtFull() float64 {
	return cluster.Fraction(g.AllocatedAtFull, g.Capacity)
}

// Add adds the next Deployment to arrive. bound is the number of its pods that have a node.
func (s *GPUSummary) Add(d workload.Deployment, bound int) {
	each := d.Shape.Requests.TotalGPUMilli()
	s.Asked += each * int64(d.Replicas)
	s.Allocated += each * int64(bound)
	if s.AllocatedAtFull == 0 && s.Asked >= s.Capacity {
		s.AllocatedAtFull = s.Allocated
	}
	switch left := d.Replicas - bound; {
	case d.Shape.Requests.GPU > 0:
		s.UnscheduledWhole += left
	case d.Shape.Requests.GPUMilli > 0:
		s.UnscheduledShare += left
	default:
		s.UnscheduledCPU += left
	}
}

// gpuSummary sums up the fill. It returns nil if the cluster has no GPUs.
func (r *runner) gpuSummary() *GPUSummary {
	s := GPUSummary{Capacity: r.Room.Allocatable.TotalGPUMilli()}
	if s.Capacity == 0 {
		return nil
	}
	for _, d := range r.created {
		if d, ok := r.existing[d.Name]; ok {
			t, _ := r.pods.count(map[string]workload.Deployment{d.Name: d})
			s.Add(d, t.bound)
		}
	}
	if r.fill.Deleted+r.fill.Lost > 0 {
		s.AllocatedAtFull = 0
	}
	return &s
}

// priority holds the fields that a PriorityClass gives a pod.
type priority struct {
	value  int32
	policy corev1.PreemptionPolicy
}

// priorityOf returns the priority with which a pod of the record is played.
func (s *stage) priorityOf(p *record.Pod) priority {
	if !s.Simulated {
		return priority{p.Priority, corev1.PreemptNever}
	}
	return priority{p.Priority, corev1.PreemptionPolicy(cmp.Or(p.Preemption, string(corev1.PreemptLowerPriority)))}
}

// maxPriority is the highest priority that a class of a user can have.
const maxPriority = 1_000_000_000

// createClasses finds or creates a PriorityClass for each priority of the plan's pods, because an API server sets a pod's priority only
// from its class. It uses the cluster's own system classes on simulated clusters only: they preempt, and other software depends on their
// names.
func (s *stage) createClasses(ctx context.Context) error {
	wanted, high := map[priority]string{}, 0
	s.parts(func(_ string, p play.Part) { wanted[s.priorityOf(p.Row)] = p.Row.PriorityClass })
	list, err := s.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the priority classes: %w", err)
	}
	there, byDefault := map[priority]string{}, priority{0, corev1.PreemptLowerPriority}
	for i := range list.Items {
		c := &list.Items[i]
		is := classPriority(c)
		if c.GlobalDefault {
			byDefault = is
		}
		if s.Simulated && strings.HasPrefix(c.Name, "system-") {
			there[is] = c.Name
		}
	}
	there[byDefault] = "" // a pod without a class has it
	for _, want := range slices.SortedFunc(maps.Keys(wanted), func(a, b priority) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.policy, b.policy))
	}) {
		name, ok := there[want]
		if !ok {
			name = fmt.Sprintf("gnnsched-%s-%d", strings.Map(dns, strings.ToLower(s.RunID)), len(s.classes)+1)
			if want.value > maxPriority {
				high++
			}
			if err := s.createClass(ctx, name, want, wanted[want]); err != nil {
				return err
			}
		}
		s.classes[want] = name
	}
	if high > 0 {
		s.Log.Warn().Int("priorities", high).Msgf("priorities over %d that no class of the cluster has are played as %d",
			maxPriority, maxPriority)
	}
	return nil
}

func classPriority(c *schedulingv1.PriorityClass) priority {
	return priority{c.Value, ptr.Deref(c.PreemptionPolicy, corev1.PreemptLowerPriority)}
}

func (s *stage) createClass(ctx context.Context, name string, p priority, was string) error {
	c := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()}, Value: min(p.value, maxPriority), PreemptionPolicy: &p.policy,
		Description: fmt.Sprintf("stands for %q of a record that runsim plays", was),
	}
	if err := create(ctx, s.Client.SchedulingV1().PriorityClasses(), c); err != nil {
		return fmt.Errorf("create priority class %s: %w", name, err)
	}
	return nil
}

// dns replaces what may not stand in a DNS label.
func dns(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
