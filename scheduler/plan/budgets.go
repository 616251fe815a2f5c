package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// budget is a PodDisruptionBudget.
type budget struct {
	namespace, name string
	selector        labels.Selector
	spec            policyv1.PodDisruptionBudgetSpec
	status          *policyv1.PodDisruptionBudgetStatus // of the disruption controller; nil if the record does not say
	pods            int                                 // that it selects
	replicas        int                                 // the subset with a controller that is not being deleted
	healthy         int                                 // pods that are ready and not being deleted
	scaleless       string                              // kind of a controller whose scale the disruption controller cannot find
}

// readBudget reads a row of the table objects.
func readBudget(o *record.Object) (*budget, error) {
	b := &budget{namespace: o.Namespace, name: o.Name}
	err := json.Unmarshal([]byte(o.Spec), &b.spec)
	if err == nil {
		b.selector, err = metav1.LabelSelectorAsSelector(b.spec.Selector)
	}
	if err == nil && o.Status != "" {
		err = json.Unmarshal([]byte(o.Status), &b.status)
	}
	if err == nil {
		_, err = b.desired()
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

// count counts a pod that the budget selects. health is "" if the record does not say; the pod then counts as ready if it has a node.
func (b *budget) count(r *record.Pod, health string, placed bool) {
	b.pods++
	switch {
	case slices.Contains([]string{"Job", "DaemonSet", "Node"}, r.OwnerKind):
		b.scaleless = r.OwnerKind
	case r.OwnerKind != "" && health != record.Terminating:
		b.replicas++
	}
	if placed && (health == "" || health == record.Ready) {
		b.healthy++
	}
}

// scaled reports whether the budget's limit depends on the number of replicas that controllers want.
func (b *budget) scaled() bool {
	return b.spec.MaxUnavailable != nil || b.spec.MinAvailable != nil && b.spec.MinAvailable.Type == intstr.String
}

// expected returns how many pods there should be, as the disruption controller counts. A record does not hold an owner's wanted replicas,
// so the present ones count.
func (b *budget) expected() int {
	switch {
	case b.status != nil:
		return int(b.status.ExpectedPods)
	case b.scaled() && b.scaleless == "":
		return b.replicas
	}
	return b.pods
}

// desired returns the number of pods that must stay healthy.
func (b *budget) desired() (int, error) {
	limit, name := b.spec.MinAvailable, "minAvailable"
	if b.spec.MaxUnavailable != nil {
		limit, name = b.spec.MaxUnavailable, "maxUnavailable"
	}
	if limit == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, b.expected(), true)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if b.spec.MaxUnavailable != nil {
		n = b.expected() - n
	}
	return max(n, 0), nil
}

// allowed returns how many healthy pods may be evicted now: the disruption controller's number, or else the number that it would compute.
// It allows none for a budget without a limit, and none if it cannot tell how many replicas there should be.
func (b *budget) allowed() (int, error) {
	desired, err := b.desired()
	switch {
	case err != nil:
		return 0, err
	case b.status != nil:
		return max(int(b.status.DisruptionsAllowed), 0), nil
	case b.spec.MinAvailable == nil && b.spec.MaxUnavailable == nil, b.scaled() && b.scaleless != "", b.expected() == 0:
		return 0, nil
	}
	return max(b.healthy-desired, 0), nil
}

// spares reports whether the API server evicts a pod in this state even if the budget allows none.
func (b *budget) spares(health string) (bool, error) {
	if health != record.NotReady {
		return false, nil
	}
	if p := b.spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true, nil
	}
	desired, err := b.desired()
	if b.status != nil {
		desired = int(b.status.DesiredHealthy)
	}
	return b.ready() >= desired && desired > 0, err
}

// ready returns the number of the budget's healthy pods.
func (b *budget) ready() int {
	if b.status != nil {
		return int(b.status.CurrentHealthy)
	}
	return b.healthy
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
	more := ""
	if b.status == nil && b.scaled() && b.scaleless != "" {
		more = fmt.Sprintf(", a %s has no scale", b.scaleless)
	}
	return fmt.Sprintf("PodDisruptionBudget %s/%s (%s, %d of %d pods are ready%s)", b.namespace, b.name, limit, b.ready(), b.expected(), more)
}

// remake are the kinds of owners that make evicted pods anew. Jobs do as long as they have tries left.
var remake = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Deployment"}

// foreign is why a pod may not come back as planned, unless Limits.Also has the name.
type foreign struct {
	name string // of the owner's kind, or of the scheduler
	why  string
}

type jobName struct{ namespace, name string }

// triesAt returns how many more pods of each Job may be evicted at the end of the window.
func triesAt(s replay.Source) map[jobName]int32 {
	out := map[jobName]int32{}
	for i := range s.Objects {
		o, tries := &s.Objects[i], int32(0)
		if o.Kind == record.KindJob && o.From < s.To && (o.To == 0 || o.To >= s.To) && record.ReadColumn(o.Spec, &tries) == nil {
			out[jobName{o.Namespace, o.Name}] = tries
		}
	}
	return out
}

// foreignTo reports whether another scheduler places the pod, or its owner may not make it anew.
func foreignTo(r *record.Pod, tries map[jobName]int32) (foreign, bool) {
	left, known := tries[jobName{r.Namespace, r.OwnerName}]
	switch {
	case r.Scheduler != "" && r.Scheduler != v1.DefaultSchedulerName:
		return foreign{r.Scheduler, "the scheduler " + r.Scheduler + " places it"}, true
	case r.OwnerKind == record.KindJob && left > 0 || slices.Contains(remake, r.OwnerKind):
		return foreign{}, false
	case r.OwnerKind == record.KindJob && known:
		return foreign{r.OwnerKind, "its Job has no try left, and fails if the pod is evicted"}, true
	case r.OwnerKind == record.KindJob:
		return foreign{r.OwnerKind, "whether its Job makes it anew is not known"}, true
	}
	return foreign{r.OwnerKind, "its controller, a " + r.OwnerKind + ", may not make it anew"}, true
}

// strange counts and names the pods that stay because they are foreign.
func (v *view) strange() (notes []string) {
	pods := map[foreign][]string{}
	for _, p := range v.pods {
		if f, is := v.foreign[p.UID]; is && v.forbids(p, v.limits) == f.why {
			pods[f] = append(pods[f], nameOf(p))
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(pods), func(a, b foreign) int { return cmp.Compare(a.why, b.why) }) {
		what := fmt.Sprintf("pods stay, each because %s; --also-move %s moves such pods", f.why, f.name)
		notes = append(notes, named(what, pods[f])...)
	}
	return notes
}
