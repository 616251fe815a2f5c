package memcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	started "k8s.io/kubernetes/pkg/scheduler/util"

	"gnnsched/internal/each"
	"gnnsched/scheduler/plugin"
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
			// Its owner wrote something that the plugins cannot handle.
			o.log.Error(err, "A pod is left out of the cluster in memory", "pod", pod.Namespace+"/"+pod.Name)
			o.Remove(pod.UID)
			o.Follow.Refused(pod, err)
		case !placed:
			alike[templateOf(pod)], failed = true, failed+1
		default:
			clear(alike) // others may want to be near it
		}
	}
	return nil
}

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

// candidate is a node with the pods that must leave it so that another pod fits.
type candidate struct {
	node    string
	victims []*v1.Pod // the most important first
}

// newPreemption returns upstream's preemption. Only its choice of each node's victims is used.
func newPreemption(ctx context.Context, profile framework.Framework) (*defaultpreemption.DefaultPreemption, error) {
	p, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 1},
		profile, feature.Features{})
	if err != nil {
		return nil, fmt.Errorf("set up preemption: %w", err)
	}
	return p, nil
}

// preempt finds the node on which a pod fits once pods of lower priority have left, as upstream's preemption does,
// disruption budgets left aside. All nodes are looked at. ok is false if there is none.
func (c *Cluster) preempt(ctx context.Context, pod *v1.Pod) (best candidate, ok bool, err error) {
	if able, _ := c.preemption.PodEligibleToPreemptOthers(ctx, pod, nil); !able {
		return candidate{}, false, nil
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return candidate{}, false, fmt.Errorf("read the snapshot: %w", err)
	}
	if !slices.ContainsFunc(infos, func(n fwk.NodeInfo) bool { return lower(n, pod) }) {
		return candidate{}, false, nil
	}
	state := framework.NewCycleState()
	among, st, _ := c.profile.RunPreFilterPlugins(ctx, state, pod)
	if !st.IsSuccess() {
		return candidate{}, false, nil
	}
	infos = slices.DeleteFunc(slices.Clone(infos), func(n fwk.NodeInfo) bool {
		return !lower(n, pod) || !among.AllNodes() && !among.NodeNames.Has(n.Node().Name)
	})
	if len(infos) == 0 {
		return candidate{}, false, nil
	}
	found, _, err := c.preemption.Evaluator.DryRunPreemption(ctx, state, pod, infos, nil, 0, int32(len(infos)))
	if err != nil {
		return candidate{}, false, fmt.Errorf("preemption: %w", err)
	}
	for _, f := range found {
		if x := (candidate{f.Name(), f.Victims().Pods}); !ok || x.compare(best) < 0 {
			best, ok = x, true
		}
	}
	return best, ok, nil
}

// lower reports whether a node has a pod of lower priority.
func lower(info fwk.NodeInfo, pod *v1.Pod) bool {
	return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
		return corev1.PodPriority(p.GetPod()) < corev1.PodPriority(pod)
	})
}

// compare is negative if c is the better choice, by upstream's order: the lowest priority of the most important victim, the lowest sum
// of priorities, the fewest victims, the latest start of the most important ones; then the name.
func (c candidate) compare(o candidate) int {
	return cmp.Or(cmp.Compare(corev1.PodPriority(c.victims[0]), corev1.PodPriority(o.victims[0])), cmp.Compare(c.priorities(), o.priorities()),
		cmp.Compare(len(c.victims), len(o.victims)), o.started().Compare(c.started()), cmp.Compare(c.node, o.node))
}

// priorities returns the sum of the victims' priorities, all shifted over 0 so that more victims never make it less.
func (c candidate) priorities() int64 {
	return each.Sum(c.victims, func(v *v1.Pod) int64 { return int64(corev1.PodPriority(v)) + 1<<31 })
}

// started returns when the first of the most important victims started.
func (c candidate) started() time.Time {
	first := started.GetPodStartTime(c.victims[0]).Time
	for _, v := range c.victims[1:] {
		if at := started.GetPodStartTime(v).Time; corev1.PodPriority(v) == corev1.PodPriority(c.victims[0]) && at.Before(first) {
			first = at
		}
	}
	return first
}

// daemon reports whether a pod belongs to one node.
func daemon(p *v1.Pod) bool {
	if _, static := p.Annotations[v1.MirrorPodAnnotationKey]; static {
		return true
	}
	o := metav1.GetControllerOfNoCopy(p)
	return o != nil && o.Kind == "DaemonSet"
}

// forNode returns a pod that waits for the node that it names, as its DaemonSet's controller makes it again.
func forNode(p *v1.Pod) *v1.Pod {
	out := On(p, "")
	out.Spec.Affinity = util.ReplaceDaemonSetPodNodeNameNodeAffinity(p.Spec.Affinity.DeepCopy(), p.Spec.NodeName)
	return out
}

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
	// Anew returns the pod that an owner makes in place of one that was preempted or whose node is gone; nil if none does. If Anew is nil, the
	// pod itself waits again. Pods of DaemonSets always do.
	Anew    func(*v1.Pod) *v1.Pod
	devices *allotment // nil: none
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
	plugin.Leaves(o.profile, pod)
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
		o.comeBack(v)
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
		plugin.Leaves(o.profile, o.Waiting[i])
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
		o.comeBack(p)
	}
}

// comeBack lets a pod wait again that left its node, or the one that its owner makes anew.
func (o *Placements) comeBack(pod *v1.Pod) {
	switch {
	case daemon(pod):
		pod = forNode(pod)
	case o.Anew != nil:
		pod = o.Anew(pod)
	default:
		pod = On(pod, "")
	}
	if pod != nil {
		o.enqueue(pod)
	}
}
