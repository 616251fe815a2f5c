package plan

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gnnsched/workload/record"
)

// budget is a PodDisruptionBudget.
type budget struct {
	namespace, name string
	selector        labels.Selector
	spec            policyv1.PodDisruptionBudgetSpec
	expected        int // pods that it selects
	running         int // of these, the ones that have a node
}

// readBudget reads a row of the table objects.
func readBudget(o *record.Object) (*budget, error) {
	b := &budget{namespace: o.Namespace, name: o.Name}
	err := json.Unmarshal([]byte(o.Spec), &b.spec)
	if err == nil {
		b.selector, err = metav1.LabelSelectorAsSelector(b.spec.Selector)
	}
	if err == nil {
		_, err = b.allowed()
	}
	if err != nil {
		return nil, fmt.Errorf("PodDisruptionBudget %s/%s: %w", o.Namespace, o.Name, err)
	}
	return b, nil
}

// selects reports whether the budget covers a pod.
func (b *budget) selects(p *v1.Pod) bool {
	return p.Namespace == b.namespace && b.selector.Matches(labels.Set(p.Labels))
}

// allowed returns how many pods may be evicted now, as the disruption controller reckons it: none for a budget without a limit. The
// pods that are there count as the expected ones, because a record does not say how many replicas an owner wants.
func (b *budget) allowed() (int, error) {
	var healthy int // that must stay
	switch {
	case b.spec.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(b.spec.MaxUnavailable, b.expected, true)
		if err != nil {
			return 0, fmt.Errorf("maxUnavailable: %w", err)
		}
		healthy = b.expected - most
	case b.spec.MinAvailable != nil:
		least, err := intstr.GetScaledValueFromIntOrPercent(b.spec.MinAvailable, b.expected, true)
		if err != nil {
			return 0, fmt.Errorf("minAvailable: %w", err)
		}
		healthy = least
	default:
		return 0, nil // the disruption controller expects no pods then
	}
	return max(b.running-max(healthy, 0), 0), nil
}

// String describes the budget.
func (b *budget) String() string {
	limit := "neither minAvailable nor maxUnavailable"
	switch {
	case b.spec.MaxUnavailable != nil:
		limit = "maxUnavailable " + b.spec.MaxUnavailable.String()
	case b.spec.MinAvailable != nil:
		limit = "minAvailable " + b.spec.MinAvailable.String()
	}
	return fmt.Sprintf("PodDisruptionBudget %s/%s (%s, %d of %d pods run)", b.namespace, b.name, limit, b.running, b.expected)
}
