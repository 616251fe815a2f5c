//go:build !service && !k136

package karpenter

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"gnnsched/scheduler/autoscale"
)

// pending is a pod without a node.
type pending struct {
	seen    *corev1.Pod // as the cluster has it
	pod     *corev1.Pod // as Karpenter reads it
	trigger time.Time   // when it asks for a batch again
	noted   bool        // whether the notes count it
}

// dedupe is the time in which Karpenter takes several pod events of a node for one.
const dedupe = 10 * time.Second

// sync tells Karpenter how the cluster differs from the last step. Equal pointers mean equal objects.
func (s *scaler) sync(ctx context.Context, c *autoscale.Cluster) error {
	s.syncObjects(c)
	old, next := s.store.machines, s.spare[:0]
	for i := range c.Nodes {
		name := c.Nodes[i].Object.Name
		for len(old) > 0 && old[0].name < name {
			s.gone(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].name == name {
			next, old = append(next, old[0]), old[1:]
			s.unbind(next[i], c.Nodes[i].Pods)
		} else {
			next = append(next, &machine{name: name})
		}
	}
	for _, m := range old {
		s.gone(m)
	}
	s.spare, s.store.machines = s.store.machines, next
	s.syncWaiting(c.Waiting)
	for i, m := range next {
		if err := s.update(ctx, m, &c.Nodes[i]); err != nil {
			return err
		}
		if err := s.bind(ctx, m, c.Nodes[i].Pods); err != nil {
			return err
		}
	}
	return nil
}

// syncObjects takes over DaemonSets and disruption budgets.
func (s *scaler) syncObjects(c *autoscale.Cluster) {
	if !slices.Equal(s.daemons, c.Daemons) {
		s.daemons, s.store.daemons = slices.Clone(c.Daemons), nil
		for _, p := range c.Daemons {
			d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
			d.Spec.Template.Spec = *p.Spec.DeepCopy()
			d.Spec.Template.Spec.NodeName, d.Spec.Template.Spec.Volumes = "", nil
			s.store.daemons = append(s.store.daemons, d)
		}
		s.changed()
	}
	if !slices.Equal(s.budgets, c.Budgets) {
		s.budgets, s.store.budgets = slices.Clone(c.Budgets), nil
		for _, b := range c.Budgets {
			s.store.budgets = append(s.store.budgets, policyv1.PodDisruptionBudget{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: b.Status})
		}
		s.changed()
		s.cluster.MarkUnconsolidated()
	}
}

// gone forgets a machine and its pods.
func (s *scaler) gone(m *machine) {
	for _, p := range m.pods {
		s.cluster.DeletePod(client.ObjectKeyFromObject(p))
	}
	s.cluster.DeleteNode(m.name)
	s.cluster.DeleteNodeClaim(m.name)
	s.changed()
}

// unbind forgets the pods of a machine that are no longer on it.
func (s *scaler) unbind(m *machine, now []*corev1.Pod) {
	if slices.Equal(m.seen, now) {
		return
	}
	stay := make(map[types.UID]bool, len(now))
	for _, p := range now {
		stay[uid(p)] = true
	}
	m.pods = slices.DeleteFunc(m.pods, func(p *corev1.Pod) bool {
		if stay[p.UID] {
			return false
		}
		s.cluster.DeletePod(client.ObjectKeyFromObject(p))
		s.podEvent(m, p)
		return true
	})
	s.changed()
}

// bind takes over the pods of a machine, after unbind.
func (s *scaler) bind(ctx context.Context, m *machine, now []*corev1.Pod) error {
	if slices.Equal(m.seen, now) {
		return nil
	}
	have := make(map[types.UID]int, len(m.pods))
	for i, p := range m.pods {
		have[p.UID] = i
	}
	before := make(map[types.UID]*corev1.Pod, len(m.seen))
	for _, p := range m.seen {
		before[uid(p)] = p
	}
	pods := make([]*corev1.Pod, 0, len(now))
	for _, p := range now {
		if i, is := have[uid(p)]; is && before[uid(p)] == p {
			pods = append(pods, m.pods[i])
			continue
		}
		bound := onNode(p, m.name)
		pods = append(pods, bound)
		if _, is := have[bound.UID]; !is {
			s.podEvent(m, bound)
		}
		if m.node != nil {
			if err := s.cluster.UpdatePod(ctx, bound); err != nil {
				return err
			}
		}
	}
	m.pods, m.seen = pods, append(m.seen[:0], now...)
	s.changed()
	return nil
}

// podEvent records that a pod came to a machine or left it, as Karpenter does for consolidateAfter.
func (s *scaler) podEvent(m *machine, p *corev1.Pod) {
	if m.claim == nil || podutils.IsOwnedByDaemonSet(p) {
		return
	}
	if last := &m.claim.Status.LastPodEventTime; last.IsZero() || s.now.Sub(last.Time) >= dedupe {
		last.Time = s.now
	}
}

// syncWaiting takes over the pods that wait.
func (s *scaler) syncWaiting(now []*corev1.Pod) {
	if slices.EqualFunc(s.store.waiting, now, func(p *pending, q *corev1.Pod) bool { return p.seen == q }) {
		return
	}
	have := make(map[types.UID]*pending, len(s.store.waiting))
	for _, p := range s.store.waiting {
		have[p.pod.UID] = p
	}
	next := make([]*pending, 0, len(now))
	for _, p := range now {
		if len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		w := have[uid(p)]
		delete(have, uid(p))
		if w == nil || w.seen != p {
			fresh := &pending{seen: p, pod: waiting(p)}
			if w != nil {
				fresh.trigger, fresh.noted = w.trigger, w.noted
			}
			w = fresh
		}
		next = append(next, w)
	}
	for _, p := range s.store.waiting {
		if have[p.pod.UID] == p { // it got a node or went
			s.cluster.DeletePod(client.ObjectKeyFromObject(p.pod))
		}
	}
	s.store.waiting = next
	s.changed()
}

// uid identifies a pod, also one without a UID.
func uid(p *corev1.Pod) types.UID {
	if p.UID == "" {
		return types.UID(p.Namespace + "/" + p.Name)
	}
	return p.UID
}

// onNode returns a pod as it runs on a node. Volumes are left out: a record has no claims of volumes.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	c := *p
	c.UID, c.Spec.NodeName, c.Spec.Volumes = uid(p), node, nil
	if c.Status.Phase == "" || c.Status.Phase == corev1.PodPending {
		c.Status.Phase = corev1.PodRunning
	}
	return &c
}

// waiting returns a pod as kube-scheduler marks it after it found no node.
func waiting(p *corev1.Pod) *corev1.Pod {
	c := *p
	c.UID, c.Spec.NodeName, c.Spec.Volumes = uid(p), "", nil
	c.Status.Phase = corev1.PodPending
	c.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
	}
	return &c
}

func labelsOf(p *corev1.Pod) labels.Set { return labels.Set(p.Labels) }
