package memcluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// template identifies pods that share their containers, such as pods made from one template in memory. They share all else but the name.
// Pods of DaemonSets, which differ in their nodes, and pods without containers have their own.
type template struct {
	shared *v1.Container
	own    types.UID
}

func templateOf(pod *v1.Pod) template {
	if len(pod.Spec.Containers) == 0 || daemon(pod) {
		return template{own: pod.UID}
	}
	return template{shared: &pod.Spec.Containers[0]}
}

// trigger selects the placed pods that may let the waiting pods of a template fit.
type trigger struct {
	pods      int // waiting pods of the template
	namespace string
	near      []labels.Selector // of required affinity
	beside    []labels.Selector // of required spreading over topology domains
}

// triggerOf compiles the selectors of a pod. It returns nil if there are none; an invalid selector selects nothing.
func triggerOf(pod *v1.Pod) *trigger {
	t := &trigger{namespace: pod.Namespace}
	add := func(to *[]labels.Selector, selector *metav1.LabelSelector) {
		if s, err := metav1.LabelSelectorAsSelector(selector); err == nil {
			*to = append(*to, s)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for i := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			add(&t.near, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if s := &pod.Spec.TopologySpreadConstraints[i]; s.WhenUnsatisfiable == v1.DoNotSchedule {
			add(&t.beside, s.LabelSelector)
		}
	}
	if len(t.near)+len(t.beside) == 0 {
		return nil
	}
	return t
}

// firesOn reports whether a required affinity or spreading of the trigger counts the placed pod. Namespaces are compared for spreading
// only; a try too many does no harm.
func (t *trigger) firesOn(placed *v1.Pod) bool {
	matches := func(s labels.Selector) bool { return s.Matches(labels.Set(placed.Labels)) }
	return slices.ContainsFunc(t.near, matches) || t.namespace == placed.Namespace && slices.ContainsFunc(t.beside, matches)
}

// enqueue lets a pod wait. Selectors are compiled for the first pod of a template.
func (o *Placements) enqueue(pod *v1.Pod) {
	o.Waiting = append(o.Waiting, pod)
	o.addTrigger(pod)
}

// dequeue removes a pod from the waiting pods.
func (o *Placements) dequeue(i int) {
	o.dropTrigger(o.Waiting[i])
	o.Waiting = slices.Delete(o.Waiting, i, i+1)
}

// addTrigger counts a pod that waits.
func (o *Placements) addTrigger(pod *v1.Pod) {
	of := templateOf(pod)
	t := o.triggers[of]
	if t == nil {
		if t = triggerOf(pod); t == nil {
			return
		}
		o.triggers[of] = t
	}
	t.pods++
}

// dropTrigger forgets the trigger of a template whose last pod waits no longer.
func (o *Placements) dropTrigger(pod *v1.Pod) {
	of := templateOf(pod)
	t := o.triggers[of]
	if t == nil {
		return
	}
	if t.pods--; t.pods == 0 {
		delete(o.triggers, of)
	}
}

// wakes reports whether a placed pod may let a waiting one fit: one that must be near it, or that spreads over topology domains together
// with it.
func (o *Placements) wakes(placed *v1.Pod) bool {
	for _, t := range o.triggers {
		if t.firesOn(placed) {
			return true
		}
	}
	return false
}
