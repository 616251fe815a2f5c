package memcluster

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Placements holds the pods of a cluster: placed by its profile, fixed on nodes, or waiting.
type Placements struct {
	*Cluster
	Running  map[types.UID]*v1.Pod  // the pods that count, with their nodes here
	Chosen   map[types.UID]struct{} // the subset that the profile placed
	Waiting  []*v1.Pod              // in the order in which they were tried first
	freed    bool                   // whether any waiting pod may fit now
	round    []turn                 // the waiting pods that are still to be tried
	triggers map[template]*trigger  // of the templates whose waiting pods have any

	// Preempts lets pods that fit nowhere take the place of pods of lower priority, which then wait. Pods of DaemonSets wait for their node.
	Preempts bool
	devices  *allotment // nil: none
	// Follow receives the profile's actions; nil by default.
	Follow Follower
}

// Follower receives the pods' changes that their owners did not cause.
type Follower interface {
	// Placed is called with a pod that the profile placed on the pod's node. If the choice has no node, other pods were preempted.
	Placed(pod *v1.Pod, by Choice)
	Preempted(pod *v1.Pod) // the pod, which names its node, made room for another one
	Lost(pod *v1.Pod)      // the node that the pod names is gone
	// Refused is called with a pod that the plugins cannot handle. It no longer waits.
	Refused(pod *v1.Pod, why error)
}

type nobody struct{}

func (nobody) Placed(*v1.Pod, Choice) {}
func (nobody) Preempted(*v1.Pod)      {}
func (nobody) Lost(*v1.Pod)           {}
func (nobody) Refused(*v1.Pod, error) {}

// NewPlacements returns the placements of an empty cluster.
func NewPlacements(c *Cluster) *Placements {
	return &Placements{
		Cluster: c, Running: map[types.UID]*v1.Pod{}, Chosen: map[types.UID]struct{}{}, triggers: map[template]*trigger{}, Follow: nobody{},
	}
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
	o.freed = o.freed || o.wakes(pod)
	o.allot(pod)
}

func (o *Placements) try(ctx context.Context, pod *v1.Pod) (placed bool, err error) {
	ch, err := o.Choose(ctx, pod)
	if err != nil {
		return false, err
	}
	node := ch.Node
	if node == "" && o.Preempts {
		if node, err = o.makeRoom(ctx, pod); err != nil {
			return false, err
		}
	}
	if node == "" {
		return false, nil
	}
	o.dequeue(o.indexOf(pod.UID))
	bound := On(pod, node)
	bound.Status.StartTime = &metav1.Time{Time: o.clock.Now()}
	o.Fix(bound)
	if !daemon(bound) {
		o.Chosen[pod.UID] = struct{}{}
	}
	o.Follow.Placed(bound, ch)
	return true, nil
}

// makeRoom preempts pods, and returns the node on which the pod fits then; "" if there is none.
func (o *Placements) makeRoom(ctx context.Context, pod *v1.Pod) (node string, err error) {
	best, ok, err := o.preempt(ctx, On(pod, ""))
	if err != nil || !ok {
		return "", err
	}
	for _, v := range best.victims {
		o.Remove(v.UID)
		o.Follow.Preempted(v)
		if daemon(v) {
			o.enqueue(forNode(v))
		} else {
			o.enqueue(On(v, ""))
		}
	}
	return best.node, nil
}

// Update takes over what changed of a pod, except its node.
func (o *Placements) Update(pod *v1.Pod) {
	if old := o.Running[pod.UID]; old != nil {
		now := On(pod, old.Spec.NodeName)
		if err := o.UpdatePod(o.log, old, now); err != nil {
			o.log.Error(err, "A pod is not updated in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
			return
		}
		o.Running[pod.UID], o.freed = now, true
	} else if i := o.indexOf(pod.UID); i >= 0 {
		o.dropTrigger(o.Waiting[i])
		o.Waiting[i] = pod
		o.addTrigger(pod)
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
		o.devices.leave(uid)
		o.freed = true
	} else if i := o.indexOf(uid); i >= 0 {
		o.dequeue(i)
	}
}

// Node takes over a change of a node, as Cluster.Node.
func (o *Placements) Node(was, now *v1.Node) error {
	o.freed = true
	if now == nil {
		o.lose(was.Name)
	}
	return o.Cluster.Node(was, now)
}

// lose makes the pods that the profile placed on a removed node wait. The others are bound to it: they stay until they really end, as in
// the real cluster, because the node may come back.
func (o *Placements) lose(node string) {
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
		o.Follow.Lost(p)
		o.enqueue(On(p, ""))
	}
}
