package shadow

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
)

// ours is the cluster that takes the profile's choices.
type ours struct {
	*cluster
	on      map[types.UID]*v1.Pod  // the pods that count, with their nodes here
	chosen  map[types.UID]struct{} // of these, the ones that the profile placed
	waiting []*v1.Pod              // in the order in which they were tried first
	freed   bool                   // whether a waiting pod may fit now
	round   []types.UID            // the waiting pods that are still to be tried in this round
}

// retries is how many waiting pods may be tried without success before the rest waits for the next call, a second later.
const retries = 20

// has reports whether the pod was seen: it counts on a node, or waits.
func (o *ours) has(uid types.UID) bool {
	return o.on[uid] != nil || o.indexOf(uid) >= 0
}

func (o *ours) indexOf(uid types.UID) int {
	return slices.IndexFunc(o.waiting, func(p *v1.Pod) bool { return p.UID == uid })
}

// fix counts a pod on its real node.
func (o *ours) fix(pod *v1.Pod) {
	if err := o.AddPod(o.log, pod); err != nil {
		o.log.Error(err, "A pod is not counted in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
		return
	}
	o.on[pod.UID] = pod
}

// decide lets the profile place a pod; the pod waits if no node fits.
func (o *ours) decide(ctx context.Context, pod *v1.Pod) error {
	placed, err := o.try(ctx, pod)
	if err == nil && !placed {
		o.waiting = append(o.waiting, pod)
	}
	return err
}

func (o *ours) try(ctx context.Context, pod *v1.Pod) (placed bool, err error) {
	ch, err := o.choose(ctx, pod)
	if err != nil || ch.node == "" {
		return false, err
	}
	o.fix(on(pod, ch.node))
	o.chosen[pod.UID] = struct{}{}
	return true, nil
}

// update takes over what changed of a pod, except its node.
func (o *ours) update(pod *v1.Pod) {
	if old := o.on[pod.UID]; old != nil {
		now := on(pod, old.Spec.NodeName)
		if err := o.UpdatePod(o.log, old, now); err != nil {
			o.log.Error(err, "A pod is not updated in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
			return
		}
		o.on[pod.UID], o.freed = now, true
	} else if i := o.indexOf(pod.UID); i >= 0 {
		o.waiting[i] = pod
	}
}

// remove takes a pod away that has really ended.
func (o *ours) remove(uid types.UID) {
	if p := o.on[uid]; p != nil {
		if err := o.RemovePod(o.log, p); err != nil {
			o.log.Error(err, "A pod is not removed from the cluster in memory", "pod", p.Namespace+"/"+p.Name)
		}
		delete(o.on, uid)
		delete(o.chosen, uid)
		o.freed = true
	} else if i := o.indexOf(uid); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
	}
}

// lose makes the pods that the profile placed on a node that is gone wait. The others are bound to it: they stay until
// they really end, as in the real cluster, for the node may come back.
func (o *ours) lose(node string) {
	var lost []*v1.Pod
	for _, p := range o.on {
		if _, ours := o.chosen[p.UID]; ours && p.Spec.NodeName == node {
			lost = append(lost, p)
		}
	}
	slices.SortFunc(lost, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range lost {
		o.remove(p.UID)
		o.waiting = append(o.waiting, on(p, ""))
	}
}

// retry tries the waiting pods, higher priorities first, if room was freed. Each round tries every pod once, and goes on at
// the next call after many failures.
func (o *ours) retry(ctx context.Context) error {
	if len(o.round) == 0 && o.freed {
		o.freed = false
		queue := slices.Clone(o.waiting)
		slices.SortStableFunc(queue, func(a, b *v1.Pod) int { return cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)) })
		for _, p := range queue {
			o.round = append(o.round, p.UID)
		}
	}
	for failed := 0; len(o.round) > 0 && failed < retries; {
		i := o.indexOf(o.round[0])
		o.round = o.round[1:]
		if i < 0 {
			continue // it has ended
		}
		placed, err := o.try(ctx, o.waiting[i])
		if err != nil {
			return err
		}
		if placed {
			o.waiting = slices.Delete(o.waiting, i, i+1)
		} else {
			failed++
		}
	}
	return nil
}
