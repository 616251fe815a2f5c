package replay

import (
	"cmp"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gnnsched/workload/record"
)

// budgets counts the pods of disruption budgets, as the disruption controller does.
type budgets struct {
	list []*budget
	of   map[*v1.Container][]*budget // of the pods of a template, which share their containers
}

type budget struct {
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
	healthy  int // pods on machines
	expected int // with those that wait
}

// budgetsOf returns the budgets at the end of the window.
func budgetsOf(s *Source) *budgets {
	out := &budgets{of: map[*v1.Container][]*budget{}}
	for i := range s.Objects {
		o := &s.Objects[i]
		b := &budget{object: &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}}
		if o.Kind != record.KindBudget || o.Gone || o.From >= s.To || o.To != 0 && o.To < s.To ||
			record.ReadColumn(o.Spec, &b.object.Spec) != nil {
			continue
		}
		var err error
		if b.selector, err = metav1.LabelSelectorAsSelector(b.object.Spec.Selector); err == nil {
			out.list = append(out.list, b)
		}
	}
	return out
}

// covers returns the budgets of a pod.
func (b *budgets) covers(p *v1.Pod) (out []*budget) {
	if len(b.list) == 0 {
		return nil
	}
	key := &p.Spec.Containers[0]
	out, known := b.of[key]
	if !known {
		for _, x := range b.list {
			if x.object.Namespace == p.Namespace && x.selector.Matches(labels.Set(p.Labels)) {
				out = append(out, x)
			}
		}
		b.of[key] = out
	}
	return out
}

// count counts a pod that came to a machine, or with -1 one that left it.
func (b *budgets) count(p *v1.Pod, n int) {
	for _, x := range b.covers(p) {
		x.healthy += n
	}
}

// comes counts a pod that is wanted from now on.
func (b *budgets) comes(p *v1.Pod) {
	for _, x := range b.covers(p) {
		x.expected++
	}
}

// gone counts a pod that is no longer wanted.
func (b *budgets) gone(p *v1.Pod) {
	for _, x := range b.covers(p) {
		x.expected--
	}
}

// allowed returns how many pods of the budget may be evicted.
func (b *budget) allowed() int {
	n, err := MustStay(&b.object.Spec, b.expected)
	if err != nil {
		return 0
	}
	return max(b.healthy-n, 0)
}

// MustStay returns how many of the expected pods of a disruption budget must stay healthy, as the disruption controller computes it:
// without a limit, more than there can be.
func MustStay(b *policyv1.PodDisruptionBudgetSpec, expected int) (int, error) {
	limit, name := b.MinAvailable, "minAvailable"
	if b.MaxUnavailable != nil {
		limit, name = b.MaxUnavailable, "maxUnavailable"
	}
	if limit == nil {
		return math.MaxInt, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, expected, true)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if b.MaxUnavailable != nil {
		n = expected - n
	}
	return max(n, 0), nil
}

// allows reports whether all budgets of a pod allow to evict it.
func (b *budgets) allows(p *v1.Pod) bool {
	for _, x := range b.covers(p) {
		if x.allowed() == 0 {
			return false
		}
	}
	return true
}

// now returns the budgets with what they allow.
func (b *budgets) now() (out []*policyv1.PodDisruptionBudget) {
	for _, x := range b.list {
		x.object.Status.DisruptionsAllowed, x.object.Status.ExpectedPods = int32(x.allowed()), int32(x.expected)
		out = append(out, x.object)
	}
	return out
}

// blocking returns the number of budgets with pods that allow no eviction, and the name of one.
func (b *budgets) blocking() (n int, example string) {
	for _, x := range b.list {
		if x.expected > 0 && x.allowed() == 0 {
			n, example = n+1, cmp.Or(example, x.object.Namespace+"/"+x.object.Name)
		}
	}
	return n, example
}
