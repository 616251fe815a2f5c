package memcluster

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
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
	o.enqueue(pod)
	if o.freed {
		return // the next round has all
	}
	t := turn{pod.UID, corev1.PodPriority(pod)}
	i := slices.IndexFunc(o.round, func(x turn) bool { return x.priority < t.priority })
	if i < 0 {
		i = len(o.round)
	}
	o.round = slices.Insert(o.round, i, t)
}

// settled reports whether Retry has nothing to try.
func (o *Placements) settled() bool { return len(o.round) == 0 && (!o.freed || len(o.Waiting) == 0) }

// Settle tries the waiting pods until nothing changes any more. Preempted pods wait too; their priority is lower than the preemptor's, so
// it ends.
func (o *Placements) Settle(ctx context.Context) error {
	for !o.settled() {
		if err := o.Retry(ctx, len(o.Waiting)+1); err != nil {
			return err
		}
	}
	return nil
}

// Retry tries the waiting pods that may fit, higher priorities first: new pods, and all pods if room was freed. Each round tries every pod
// once, and continues at the next call after the given number of failures. Pods that share their containers and all else but the name fail
// together. It returns ctx's error if ctx ends.
func (o *Placements) Retry(ctx context.Context, failures int) error {
	if len(o.round) == 0 && o.freed {
		o.freed = false
		for _, p := range o.Waiting {
			o.round = append(o.round, turn{p.UID, corev1.PodPriority(p)})
		}
		slices.SortStableFunc(o.round, func(a, b turn) int { return cmp.Compare(b.priority, a.priority) })
	}
	alike := map[template]bool{} // templates whose pods were tried in vain
	for failed := 0; len(o.round) > 0 && failed < failures; {
		i := o.indexOf(o.round[0].uid)
		o.round = o.round[1:]
		if i < 0 {
			continue // it has ended
		}
		pod := o.Waiting[i]
		if alike[templateOf(pod)] {
			continue
		}
		placed, err := o.try(ctx, pod)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			o.refuse(pod, err)
		case !placed:
			alike[templateOf(pod)], failed = true, failed+1
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
