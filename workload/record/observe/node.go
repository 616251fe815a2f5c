package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

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
		Taints: record.Column(taints(n.Spec.Taints)), Unschedulable: n.Spec.Unschedulable,
		DoNotDisrupt: record.JSON(doNotDisrupt(n.Annotations, nodeMarks)),
	}
}

// taints returns taints in the order of their keys, without the times at which they were added: those change nothing.
func taints(all []corev1.Taint) []corev1.Taint {
	out := slices.Clone(all)
	for i := range out {
		out[i].TimeAdded = nil
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

// Budget translates a PodDisruptionBudget.
func Budget(b *policyv1.PodDisruptionBudget) record.Object {
	return record.Object{Kind: record.KindBudget, Namespace: b.Namespace, Name: b.Name, Spec: record.JSON(b.Spec), Status: budgetStatus(b)}
}
