package memcluster

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
)

// turn is a place in the order in which waiting pods are tried.
type turn struct {
	uid      types.UID
	priority int32
}

// Wait lets a pod wait for a node. Retry tries it after the waiting pods that may fit too and whose priority is as high.
func (o *Placements) Wait(pod *v1.Pod) {
	o.Waiting = append(o.Waiting, pod)
	if o.Freed {
		return // the next round has all
	}
	t := turn{pod.UID, corev1.PodPriority(pod)}
	i := slices.IndexFunc(o.round, func(x turn) bool { return x.priority < t.priority })
	if i < 0 {
		i = len(o.round)
	}
	o.round = slices.Insert(o.round, i, t)
}

// Settled reports whether Retry has nothing to try.
func (o *Placements) Settled() bool { return len(o.round) == 0 && (!o.Freed || len(o.Waiting) == 0) }

// Retry tries the waiting pods that may fit, higher priorities first: those that are new, and all if room was freed. Each round
// tries every pod once, and goes on at the next call after as many failures as given. Pods that share their containers and all
// else but the name fail together. The error is that of ctx.
func (o *Placements) Retry(ctx context.Context, failures int) error {
	if len(o.round) == 0 && o.Freed {
		o.Freed = false
		for _, p := range o.Waiting {
			o.round = append(o.round, turn{p.UID, corev1.PodPriority(p)})
		}
		slices.SortStableFunc(o.round, func(a, b turn) int { return cmp.Compare(b.priority, a.priority) })
	}
	alike := map[*v1.Container]bool{} // pods of a template that was tried in vain
	for failed := 0; len(o.round) > 0 && failed < failures; {
		i := o.indexOf(o.round[0].uid)
		o.round = o.round[1:]
		if i < 0 {
			continue // it has ended
		}
		pod := o.Waiting[i]
		if alike[template(pod)] {
			continue
		}
		placed, err := o.try(ctx, pod)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			o.refuse(pod, err)
		case !placed:
			alike[template(pod)], failed = true, failed+1
		default:
			clear(alike) // others may want to be near it
		}
	}
	return nil
}

// refuse leaves out a waiting pod whose owner wrote something that the plugins cannot handle.
func (o *Placements) refuse(pod *v1.Pod, why error) {
	o.log.Error(why, "A pod is left out of the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
	o.Remove(pod.UID)
	o.Follow.Refused(pod, why)
}

// template returns the same for pods that share their containers, as those that were made from one template in memory do. Pods of
// DaemonSets differ in their nodes.
func template(pod *v1.Pod) *v1.Container {
	if len(pod.Spec.Containers) == 0 || daemon(pod) {
		return new(v1.Container)
	}
	return &pod.Spec.Containers[0]
}

// wakes reports whether a pod that got a node may let a waiting one fit: one that must be near it, or that spreads over
// topology domains together with it.
func (o *Placements) wakes(placed *v1.Pod) bool {
	seen := map[*v1.Container]bool{}
	for _, p := range o.Waiting {
		if t := template(p); !seen[t] {
			seen[t] = true
			if wants(p, placed) {
				return true
			}
		}
	}
	return false
}

// wants reports whether a required affinity or spreading of the waiting pod counts the placed one. Namespaces are compared
// for spreading only; a try too many does no harm.
func wants(waiting, placed *v1.Pod) bool {
	if a := waiting.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for i := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if matches(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector, placed) {
				return true
			}
		}
	}
	if waiting.Namespace != placed.Namespace {
		return false
	}
	for i := range waiting.Spec.TopologySpreadConstraints {
		s := &waiting.Spec.TopologySpreadConstraints[i]
		if s.WhenUnsatisfiable == v1.DoNotSchedule && matches(s.LabelSelector, placed) {
			return true
		}
	}
	return false
}

func matches(selector *metav1.LabelSelector, pod *v1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(pod.Labels))
}
