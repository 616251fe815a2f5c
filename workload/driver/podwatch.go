package driver

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"gnnsched/workload"
)

// podWatch counts the run's pods on the cluster.
type podWatch struct {
	changed chan struct{} // has an item after a change, until somebody takes it
	stop    func()
	bare    bool // a pod's own name is that of its Deployment: its labels are those of a record

	mu       sync.Mutex
	pods     map[types.UID]pod
	byName   map[string]*tally // by Deployment
	bindings int               // pods that were bound since the watch began
	unplaced []pod             // pods that were deleted before they had a node
}

// pod is the state of one pod.
type pod struct {
	deployment string
	bound      bool
	reason     string // the scheduler's reason why it is pending; empty if there is none
	refused    bool   // the scheduler tried it and found no node
}

// tally counts the pods of one or several Deployments, without pods that are being deleted.
type tally struct{ created, bound int }

// watchPods starts the watch and waits until it has seen every pod of the run.
func watchPods(ctx context.Context, c *Config) (*podWatch, error) {
	w := &podWatch{changed: make(chan struct{}, 1), bare: c.Replay != nil, pods: map[types.UID]pod{}, byName: map[string]*tally{}}
	namespace := c.Namespace
	if c.Replay != nil { // it has several
		namespace = metav1.NamespaceAll
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = workload.LabelRun + "=" + c.RunID }),
		informers.WithTransform(stripPod))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.set(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { w.set(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if p, ok := o.(*corev1.Pod); ok {
				w.drop(p)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	for _, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			w.stop()
			return nil, fmt.Errorf("watch the pods: %w", context.Cause(ctx))
		}
	}
	return w, nil
}

// stripPod keeps the fields that podWatch reads, to save memory with many thousands of pods.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp},
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status:     corev1.PodStatus{Conditions: p.Status.Conditions},
	}, nil
}

func (w *podWatch) set(p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		w.drop(p)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[p.UID]
	now := pod{deployment: p.Labels[workload.LabelName], bound: p.Spec.NodeName != ""}
	if w.bare {
		now.deployment = p.Name
	}
	if !now.bound {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				now.reason, now.refused = cond.Message, cond.Reason == corev1.PodReasonUnschedulable
			}
		}
	}
	if known && old == now {
		return
	}
	t := w.byName[now.deployment]
	if t == nil {
		t = &tally{}
		w.byName[now.deployment] = t
	}
	if !known {
		t.created++
	}
	if now.bound && !old.bound {
		t.bound++
		w.bindings++
	}
	w.pods[p.UID] = now
	w.notify()
}

// drop forgets a pod that is deleted, whose last state is p.
func (w *podWatch) drop(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[p.UID]
	if !known {
		return
	}
	delete(w.pods, p.UID)
	t := w.byName[old.deployment]
	t.created--
	switch {
	case old.bound:
		t.bound--
	case p.Spec.NodeName != "": // bound since the last event
		w.bindings++
	default:
		w.unplaced = append(w.unplaced, old)
	}
	if *t == (tally{}) {
		delete(w.byName, old.deployment)
	}
	w.notify()
}

func (w *podWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// count sums up the pods of the Deployments. progress grows whenever a pod is created or bound.
func (w *podWatch) count(of map[string]workload.Deployment) (t tally, progress int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range of {
		if d := w.byName[name]; d != nil {
			t.created += d.created
			t.bound += d.bound
		}
	}
	return t, w.bindings + len(w.pods)
}

// placed returns how many pods were bound since the watch began.
func (w *podWatch) placed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bindings
}

// leftUnplaced counts the deleted pods of the Deployments that never had a node, by the reason.
func (w *podWatch) leftUnplaced(of map[string]workload.Deployment) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, p := range w.unplaced {
		if _, ok := of[p.deployment]; ok {
			out[p.reason]++
		}
	}
	return out
}

// bound returns how many pods of a Deployment have a node.
func (w *podWatch) bound(deployment string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.byName[deployment]; t != nil {
		return t.bound
	}
	return 0
}

// refused returns how many pods of the Deployments the scheduler has found unschedulable.
func (w *podWatch) refused(of map[string]workload.Deployment) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if _, ok := of[p.deployment]; ok && p.refused {
			n++
		}
	}
	return n
}

// reasons counts the pending pods of the Deployments by reason.
func (w *podWatch) reasons(of map[string]workload.Deployment) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, p := range w.pods {
		if _, ok := of[p.deployment]; ok && !p.bound {
			out[p.reason]++
		}
	}
	return out
}
