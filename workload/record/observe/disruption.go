package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// mark is an annotation with which an owner asks to leave a pod or a node where it is.
type mark struct {
	key  string
	asks func(value string) bool // nil: any value does
}

func only(value string) func(string) bool { return func(is string) bool { return is == value } }

// podMarks are the annotations of pods that autoscalers and the descheduler honour. Of the descheduler's prefer-no-eviction only the
// presence counts. With its evict of any value, pods may be evicted; the value "false" does not mean the opposite.
var podMarks = []mark{
	{"cluster-autoscaler.kubernetes.io/safe-to-evict", only("false")},
	{"karpenter.sh/do-not-disrupt", trueOrTime},
	{"karpenter.sh/do-not-evict", only("true")}, // before Karpenter 0.32
	{"descheduler.alpha.kubernetes.io/prefer-no-eviction", nil},
	{"descheduler.alpha.kubernetes.io/evict", only("false")},
}

// nodeMarks are the annotations of nodes that autoscalers honour.
var nodeMarks = []mark{
	{"cluster-autoscaler.kubernetes.io/scale-down-disabled", only("true")},
	{"karpenter.sh/do-not-disrupt", only("true")},
	{"karpenter.sh/do-not-consolidate", only("true")}, // before Karpenter 0.32
}

// trueOrTime accepts "true" and, as Karpenter does since 1.12, the time for which the pod stays after its start.
func trueOrTime(value string) bool {
	const longest = 32 // bytes; ParseDuration takes any number of terms
	d, err := time.ParseDuration(value)
	return value == "true" || err == nil && d > 0 && len(value) <= longest
}

// doNotDisrupt returns the annotations that ask to leave the object, as key=value. Where only the presence counts, it omits the value. The
// list is never nil.
func doNotDisrupt(annotations map[string]string, marks []mark) []string {
	out := []string{}
	for _, m := range marks {
		value, has := annotations[m.key]
		switch {
		case has && m.asks == nil:
			out = append(out, m.key)
		case has && m.asks(value):
			out = append(out, m.key+"="+value)
		}
	}
	return out
}

// health returns the health of a pod that has not ended, and since when; 0 if the pod does not tell. A pod without a Ready condition that
// is neither pending nor being deleted has none: no kubelet has reported it.
func health(p *corev1.Pod) (is string, since int64) {
	if kube.Finished(p) {
		return "", 0
	}
	if t := p.DeletionTimestamp; t != nil {
		grace := time.Duration(0)
		if s := p.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		return record.Terminating, max(t.Add(-grace).UnixMilli(), 0)
	}
	if p.Status.Phase == corev1.PodPending {
		return record.Pending, millis(p.CreationTimestamp)
	}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return record.Ready, millis(c.LastTransitionTime)
		}
		return record.NotReady, millis(c.LastTransitionTime)
	}
	return "", 0
}

// budgetStatus returns the disruption controller's status, as JSON. It is empty if the controller has not seen the present budget.
func budgetStatus(b *policyv1.PodDisruptionBudget) string {
	s := policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: b.Status.DisruptionsAllowed, CurrentHealthy: b.Status.CurrentHealthy, DesiredHealthy: b.Status.DesiredHealthy,
		ExpectedPods: b.Status.ExpectedPods,
	}
	seen := b.Status.ObservedGeneration
	if numbers := [...]int32{s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods}; seen < b.Generation && seen > 0 ||
		seen == 0 && numbers == [4]int32{} {
		return ""
	}
	return record.JSON(s)
}
