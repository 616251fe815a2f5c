package canary

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watchLost counts pods that the kubelet refused or evicted until ctx ends. It has an informer of its own, because the
// scheduler's sees no pods that have failed: for that one they are deleted.
func (c *Split) watchLost(ctx context.Context) {
	failed := coreinformers.NewFilteredPodInformer(c.handle.ClientSet(), metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.AndSelectors(
				fields.OneTermEqualSelector("status.phase", string(v1.PodFailed)),
				fields.OneTermEqualSelector("spec.schedulerName", c.profile),
			).String()
		})
	_ = failed.SetTransform(slim) // the only error is that it has started
	_, _ = failed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.failed,
		UpdateFunc: func(_, now any) { c.failed(now) },
	}) // the only error is that it has stopped
	failed.RunWithContext(ctx)
}

// slim leaves of a pod what failed needs.
func slim(object any) (any, error) {
	p, is := object.(*v1.Pod)
	if !is {
		return object, nil
	}
	return &v1.Pod{
		TypeMeta:   p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Status:     v1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason},
	}, nil
}

// failed counts a pod that this process placed and the kubelet refused or evicted, once.
func (c *Split) failed(object any) {
	p, is := object.(*v1.Pod)
	if !is || p.Status.Phase != v1.PodFailed || !nodeFailed(p.Status.Reason) {
		return
	}
	if m, has := c.takePlaced(p.UID); has {
		c.settled(m, lost)
	}
}

// takePlaced returns the member of a pod that was placed, and forgets the pod. It remembers any other pod, whose PostBind
// may follow: the API has the binding before, and a kubelet can refuse the pod at once.
func (c *Split) takePlaced(pod types.UID) (m member, has bool) {
	c.lostMu.Lock()
	defer c.lostMu.Unlock()
	at, has := c.placed.Get(pod)
	if !has {
		c.early.Add(pod, nil)
		return member{}, false
	}
	c.placed.Remove(pod)
	return at.(member), true
}

// lostAlready reports whether a pod failed before its PostBind. It remembers the member of any other pod.
func (c *Split) lostAlready(pod types.UID, m member) bool {
	c.lostMu.Lock()
	defer c.lostMu.Unlock()
	if _, has := c.early.Get(pod); has {
		c.early.Remove(pod)
		return true
	}
	c.placed.Add(pod, m)
	return false
}

// nodeFailed reports whether a failed pod was not fit for its node, or the node not for the pod. The other reasons
// come from the pod itself.
func nodeFailed(reason string) bool {
	switch reason {
	case "Evicted", "NodeAffinity", "UnexpectedAdmissionError", "TopologyAffinityError":
		return true
	}
	return strings.HasPrefix(reason, "OutOf") // OutOfcpu, OutOfmemory, OutOfpods
}
