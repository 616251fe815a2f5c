//go:build !service && !k136

package karpenter

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/autoscale"
)

// entry is a pod.
type entry struct {
	seen    *corev1.Pod       // as the cluster has it
	pod     *corev1.Pod       // as Karpenter reads it
	known   bool              // whether Karpenter's state has it, as it is, on its node
	came    bool              // whether it is new on its node
	trigger time.Time         // when it asks for a batch again, while it waits
	noted   bool              // whether the notes count it
	size    cluster.Resources // what it requests
	sized   bool              // whether that is CPU and memory alone
	plain   bool              // whether it can run wherever there is room for it
}

// dedupe is the time in which Karpenter takes several pod events of a node for one.
const dedupe = 10 * time.Second

// sync tells Karpenter how the cluster differs from the last step. Equal pointers mean equal objects.
func (s *scaler) sync(ctx context.Context, c *autoscale.Cluster) error {
	if !slices.Equal(s.store.daemons, c.Daemons) || !slices.Equal(s.store.budgets, c.Budgets) {
		s.store.daemons, s.store.budgets = slices.Clone(c.Daemons), slices.Clone(c.Budgets)
		s.cluster.MarkUnconsolidated()
		s.changed()
	}
	old, next := s.store.machines, s.spare[:0]
	for i := range c.Nodes {
		name := c.Nodes[i].Object.Name
		for len(old) > 0 && old[0].name < name {
			s.gone(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].name == name {
			next, old = append(next, old[0]), old[1:]
		} else {
			next = append(next, &machine{name: name})
		}
		s.match(next[i], c.Nodes[i].Pods)
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
		if err := s.bind(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// gone forgets a machine and its pods.
func (s *scaler) gone(m *machine) {
	s.forget(m.pods)
	s.cluster.DeleteNode(m.name)
	s.cluster.DeleteNodeClaim(m.name)
	s.changed()
}

// forget tells Karpenter that pods are no more where they were.
func (s *scaler) forget(pods []*entry) {
	for _, e := range pods {
		s.cluster.DeletePod(client.ObjectKeyFromObject(e.pod))
	}
}

// match takes over the pods of a machine, and forgets those that left.
func (s *scaler) match(m *machine, now []*corev1.Pod) {
	if same(m.pods, now) {
		return
	}
	var left []*entry
	m.pods, left = matched(m.pods, now, func(p *corev1.Pod) *corev1.Pod { return onNode(p, m.name) })
	s.forget(left)
	for _, e := range left {
		s.podEvent(m, e.pod)
	}
	m.fresh = true
	m.measure()
	s.changed()
}

// bind tells Karpenter of the pods that came to a machine, after all are forgotten that left one.
func (s *scaler) bind(ctx context.Context, m *machine) error {
	if !m.fresh {
		return nil
	}
	m.fresh = false
	for _, e := range m.pods {
		if e.known {
			continue
		}
		if e.known = true; e.came {
			e.came = false
			s.podEvent(m, e.pod)
		}
		if m.node != nil {
			if err := s.cluster.UpdatePod(ctx, e.pod); err != nil {
				return err
			}
		}
	}
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
	if same(s.store.waiting, now) {
		return
	}
	next, left := matched(s.store.waiting, now, waiting)
	s.forget(left)
	s.store.waiting = next
	s.changed()
}

func same(old []*entry, now []*corev1.Pod) bool {
	return slices.EqualFunc(old, now, func(e *entry, p *corev1.Pod) bool { return e.seen == p })
}

// matched returns entries for the pods of now, as far as possible those of old, and the rest of old. A pod that changed is converted anew.
func matched(old []*entry, now []*corev1.Pod, convert func(*corev1.Pod) *corev1.Pod) (next, left []*entry) {
	have := make(map[types.UID]*entry, len(old))
	for _, e := range old {
		have[e.pod.UID] = e
	}
	next = make([]*entry, 0, len(now))
	for _, p := range now {
		e := have[uid(p)]
		if delete(have, uid(p)); e == nil {
			e = &entry{came: true}
		}
		if e.seen != p {
			e.seen, e.pod, e.known, e.size, e.sized, e.plain = p, convert(p), false, sizeOf(p), sized(p), plain(p)
		}
		next = append(next, e)
	}
	for _, e := range old {
		if have[e.pod.UID] == e {
			left = append(left, e)
		}
	}
	return next, left
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
	c.UID, c.Spec.NodeName, c.Spec.Volumes, c.OwnerReferences = uid(p), node, nil, owners(p)
	if c.Status.Phase == "" || c.Status.Phase == corev1.PodPending {
		c.Status.Phase = corev1.PodRunning
	}
	return &c
}

// waiting returns a pod as kube-scheduler marks it after it found no node.
func waiting(p *corev1.Pod) *corev1.Pod {
	c := *p
	c.UID, c.Spec.NodeName, c.Spec.Volumes, c.OwnerReferences = uid(p), "", nil, owners(p)
	c.Status.Phase, c.Status.Conditions = corev1.PodPending, nil
	if len(p.Spec.SchedulingGates) == 0 {
		c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonUnschedulable}}
	}
	return &c
}

// owners returns the owners of a pod with the version of their API, which a record lacks and Karpenter compares.
func owners(p *corev1.Pod) []metav1.OwnerReference {
	out := slices.Clone(p.OwnerReferences)
	for i := range out {
		if out[i].APIVersion == "" {
			out[i].APIVersion = map[string]string{"DaemonSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1"}[out[i].Kind]
		}
		if out[i].APIVersion == "" {
			out[i].APIVersion = "v1"
		}
	}
	return out
}
