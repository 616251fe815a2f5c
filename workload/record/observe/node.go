package observe

import (
	"math"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
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
