package observe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// Node translates a node. The times are left to the caller.
func Node(n *corev1.Node) record.Node {
	amounts := kube.Node(n)
	a := amounts.Allocatable
	return record.Node{
		Name: n.Name, MilliCPU: within(a.MilliCPU, cluster.MaxMilliCPU), Memory: within(a.Memory, cluster.MaxMemory),
		Pods: within(a.Pods, 1<<20), GPU: within(a.GPU, 1<<20), GPUModel: amounts.GPUModel,
		Extended: extended(n.Status.Allocatable), Capacity: quantities(n.Status.Capacity), Labels: record.Column(n.Labels),
		Taints: record.Column(taints(n)), Unschedulable: n.Spec.Unschedulable,
		DoNotDisrupt: record.JSON(doNotDisrupt(n.Annotations, nodeMarks)),
	}
}

// taints returns a node's taints in the order of their keys, without the times at which they were added: those change nothing. A node
// whose kubelet is not ready has a taint that says so, as Kubernetes' node controller adds it.
func taints(n *corev1.Node) []corev1.Taint {
	out := slices.Clone(n.Spec.Taints)
	for i := range out {
		out[i].TimeAdded = nil
	}
	for _, c := range n.Status.Conditions {
		key := map[corev1.ConditionStatus]string{corev1.ConditionFalse: automatic[0], corev1.ConditionUnknown: automatic[1]}[c.Status]
		if c.Type == corev1.NodeReady && key != "" && !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.Key == key }) {
			out = append(out, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	slices.SortFunc(out, func(a, b corev1.Taint) int {
		return strings.Compare(a.Key+"/"+string(a.Effect), b.Key+"/"+string(b.Effect))
	})
	return out
}

// ordinary are the resources that have columns.
var ordinary = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, kube.GPUResource, kube.GPUCountResource, kube.GPUMilliResource,
}

// extended returns the amounts that have no column, as JSON.
func extended(l corev1.ResourceList) string {
	out := make(corev1.ResourceList, len(l))
	for name, q := range l {
		if !slices.Contains(ordinary, name) && !q.IsZero() {
			out[name] = q
		}
	}
	return quantities(out)
}

// quantities returns a list of resources as JSON.
func quantities(l corev1.ResourceList) string {
	out := make(map[string]string, len(l))
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return record.Column(out)
}

// Namespace translates a namespace.
func Namespace(n *corev1.Namespace) record.Object {
	return record.Object{Kind: record.KindNamespace, Name: n.Name, Spec: record.Column(n.Labels)}
}

// PriorityClass translates a priority class.
func PriorityClass(c *schedulingv1.PriorityClass) record.Object {
	spec := struct {
		Value            int32                    `json:"value"`
		GlobalDefault    bool                     `json:"globalDefault,omitempty"`
		PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
	}{c.Value, c.GlobalDefault, c.PreemptionPolicy}
	return record.Object{Kind: record.KindPriorityClass, Name: c.Name, Spec: record.JSON(spec)}
}

// Job translates a Job.
func Job(j *batchv1.Job) record.Object {
	return record.Object{Kind: record.KindJob, Namespace: j.Namespace, Name: j.Name, Spec: record.JSON(triesLeft(j))}
}

// triesLeft returns how many more pods of a Job may be evicted before it fails. Of a Job with limits for each index, all failures count.
func triesLeft(j *batchv1.Job) int32 {
	if m := j.Spec.ManagedBy; m != nil && *m != batchv1.JobControllerName {
		return 0 // nothing is known of other controllers
	}
	limit := ptr.Deref(j.Spec.BackoffLimit, 6)
	if each := j.Spec.BackoffLimitPerIndex; each != nil {
		limit = min(ptr.Deref(j.Spec.BackoffLimit, math.MaxInt32), *each)
	}
	if p := j.Spec.PodFailurePolicy; p != nil {
		for _, r := range p.Rules {
			evicted := slices.ContainsFunc(r.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
				return c.Type == corev1.DisruptionTarget && c.Status != corev1.ConditionFalse
			})
			if x := r.OnExitCodes; x != nil { // of SIGTERM and SIGKILL
				listed := slices.Contains(x.Values, 143) || slices.Contains(x.Values, 137)
				evicted = listed == (x.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
			}
			switch {
			case evicted && r.Action == batchv1.PodFailurePolicyActionIgnore && r.OnExitCodes == nil:
				return math.MaxInt32
			case evicted && (r.Action == batchv1.PodFailurePolicyActionFailJob || r.Action == batchv1.PodFailurePolicyActionFailIndex):
				return 0
			}
		}
	}
	return max(limit-j.Status.Failed, 0)
}

// Budget translates a PodDisruptionBudget.
func Budget(b *policyv1.PodDisruptionBudget) record.Object {
	return record.Object{Kind: record.KindBudget, Namespace: b.Namespace, Name: b.Name, Spec: record.JSON(b.Spec), Status: budgetStatus(b)}
}

// maxQuantity is more than a cluster has of anything else than what most names, in cores, bytes or pieces.
const maxQuantity = 1e15

// most are the largest amounts that a record holds.
var most = map[corev1.ResourceName]int64{corev1.ResourceCPU: cluster.MaxMilliCPU / 1000, corev1.ResourceMemory: cluster.MaxMemory}

// inRange clamps the amounts of a list between 0 and a record's largest amount. It returns an error with the first amount that was outside.
// API servers accept limits such as 1e30 cores. They accept no negative amounts, but a file may have them.
func inRange(field string, l corev1.ResourceList) (first error) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		limit := cmp.Or(most[name], maxQuantity)
		switch {
		case q.Sign() < 0:
			l[name] = *resource.NewQuantity(0, q.Format)
		case q.CmpInt64(limit) > 0:
			l[name] = *resource.NewQuantity(limit, q.Format)
		default:
			continue
		}
		if first == nil {
			first = fmt.Errorf("%s.%s is %s, want 0 to %d", field, exit.Clean(string(name), 100), exit.Clean(q.String(), 40), limit)
		}
	}
	return first
}

// boundPod bounds a pod's requests.
func boundPod(p *corev1.Pod) error {
	first := inRange("spec.overhead", p.Spec.Overhead)
	both := func(at string, r corev1.ResourceRequirements) {
		for _, err := range []error{inRange(at+".requests", r.Requests), inRange(at+".limits", r.Limits)} {
			first = cmp.Or(first, err)
		}
	}
	for c := range kube.Containers(p) {
		both("container "+exit.Quote(c.Name)+": resources", c.Resources)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		at := "the status of container " + exit.Quote(c.Name) + ": "
		if c.Resources != nil {
			both(at+"resources", *c.Resources)
		}
		both(at+"allocated", corev1.ResourceRequirements{Requests: c.AllocatedResources})
	}
	for _, r := range []*corev1.ResourceRequirements{p.Spec.Resources, p.Status.Resources} {
		if r != nil {
			both("resources", *r)
		}
	}
	amounts, _ := kube.Pod(p)
	for _, a := range []cluster.Resources{amounts.Requests, amounts.Limits} {
		if first == nil && (a.MilliCPU > cluster.MaxMilliCPU || a.Memory > cluster.MaxMemory) {
			first = fmt.Errorf("its containers have %d milli-cores and %d bytes together, more than a record holds", a.MilliCPU, a.Memory)
		}
	}
	return first
}

// boundNode bounds a node's capacity.
func boundNode(n *corev1.Node) error {
	return cmp.Or(inRange("status.allocatable", n.Status.Allocatable), inRange("status.capacity", n.Status.Capacity))
}
