package memcluster

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
)

// Placements are the pods of a cluster, placed by its profile or fixed on nodes, and those that wait.
type Placements struct {
	*Cluster
	Running map[types.UID]*v1.Pod  // the pods that count, with their nodes here
	Chosen  map[types.UID]struct{} // of these, the ones that the profile placed
	Waiting []*v1.Pod              // in the order in which they were tried first
	Freed   bool                   // whether a waiting pod may fit now
	round   []types.UID            // the waiting pods that are still to be tried in this round
}

// NewPlacements returns the placements of an empty cluster.
func NewPlacements(c *Cluster) *Placements {
	return &Placements{Cluster: c, Running: map[types.UID]*v1.Pod{}, Chosen: map[types.UID]struct{}{}}
}

// Has reports whether the pod was seen: it counts on a node, or waits.
func (o *Placements) Has(uid types.UID) bool {
	return o.Running[uid] != nil || o.indexOf(uid) >= 0
}

func (o *Placements) indexOf(uid types.UID) int {
	return slices.IndexFunc(o.Waiting, func(p *v1.Pod) bool { return p.UID == uid })
}

// Fix counts a pod on its real node.
func (o *Placements) Fix(pod *v1.Pod) {
	if err := o.AddPod(o.log, pod); err != nil {
		o.log.Error(err, "A pod is not counted in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
		return
	}
	o.Running[pod.UID] = pod
}

// Decide lets the profile place a pod; the pod waits if no node fits.
func (o *Placements) Decide(ctx context.Context, pod *v1.Pod) error {
	placed, err := o.try(ctx, pod)
	if err == nil && !placed {
		o.Waiting = append(o.Waiting, pod)
	}
	return err
}

func (o *Placements) try(ctx context.Context, pod *v1.Pod) (placed bool, err error) {
	ch, err := o.Choose(ctx, pod)
	if err != nil || ch.Node == "" {
		return false, err
	}
	o.Fix(On(pod, ch.Node))
	o.Chosen[pod.UID] = struct{}{}
	return true, nil
}

// Update takes over what changed of a pod, except its node.
func (o *Placements) Update(pod *v1.Pod) {
	if old := o.Running[pod.UID]; old != nil {
		now := On(pod, old.Spec.NodeName)
		if err := o.UpdatePod(o.log, old, now); err != nil {
			o.log.Error(err, "A pod is not updated in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
			return
		}
		o.Running[pod.UID], o.Freed = now, true
	} else if i := o.indexOf(pod.UID); i >= 0 {
		o.Waiting[i] = pod
	}
}

// Remove takes a pod away that has really ended.
func (o *Placements) Remove(uid types.UID) {
	if p := o.Running[uid]; p != nil {
		if err := o.RemovePod(o.log, p); err != nil {
			o.log.Error(err, "A pod is not removed from the cluster in memory", "pod", p.Namespace+"/"+p.Name)
		}
		delete(o.Running, uid)
		delete(o.Chosen, uid)
		o.Freed = true
	} else if i := o.indexOf(uid); i >= 0 {
		o.Waiting = slices.Delete(o.Waiting, i, i+1)
	}
}

// Lose makes the pods that the profile placed on a node that is gone wait. The others are bound to it: they stay until
// they really end, as in the real cluster, for the node may come back.
func (o *Placements) Lose(node string) {
	var lost []*v1.Pod
	for _, p := range o.Running {
		if _, ours := o.Chosen[p.UID]; ours && p.Spec.NodeName == node {
			lost = append(lost, p)
		}
	}
	slices.SortFunc(lost, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range lost {
		o.Remove(p.UID)
		o.Waiting = append(o.Waiting, On(p, ""))
	}
}

// Retry tries the waiting pods, higher priorities first, if room was freed. Each round tries every pod once, and goes on at
// the next call after as many failures as given.
func (o *Placements) Retry(ctx context.Context, failures int) error {
	if len(o.round) == 0 && o.Freed {
		o.Freed = false
		queue := slices.Clone(o.Waiting)
		slices.SortStableFunc(queue, func(a, b *v1.Pod) int { return cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)) })
		for _, p := range queue {
			o.round = append(o.round, p.UID)
		}
	}
	for failed := 0; len(o.round) > 0 && failed < failures; {
		i := o.indexOf(o.round[0])
		o.round = o.round[1:]
		if i < 0 {
			continue // it has ended
		}
		placed, err := o.try(ctx, o.Waiting[i])
		if err != nil {
			return err
		}
		if placed {
			o.Waiting = slices.Delete(o.Waiting, i, i+1)
		} else {
			failed++
		}
	}
	return nil
}
