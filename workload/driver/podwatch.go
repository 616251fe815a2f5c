package driver

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"gnnsched/internal/watched"
	"gnnsched/workload"
)

// podWatch counts the run's pods on the cluster.
type podWatch struct {
	changed chan struct{} // has an item after a change, until it is received
	stop    func()
	bare    bool // a pod has its Deployment's name, because its labels come from a record

	mu       sync.Mutex
	pods     map[types.UID]pod
	byName   map[string]*tally // by Deployment
	had      map[string]bool   // who ever had a node, by pod.who
	unplaced map[string]pod    // pods that were deleted before they had a node, by pod.who
	gone     []pod             // pods that the API server has deleted, until they are taken
	waits    *podWaits         // nil: not needed
	changes  int               // of existing pods, and of bound pods
}

// pod is the state of one pod.
type pod struct {
	namespace, name, deployment string
	// who identifies a pod that counts once: the UID, or the name of a pod of a record, which may be created again.
	who     string
	bound   bool
	reason  string // the scheduler's reason why it is pending; empty if there is none
	refused bool   // the scheduler tried it and found no node
}

// tally counts the pods of one or several Deployments, without pods that are being deleted.
type tally struct{ created, bound int }

func newPodWatch(bare bool) *podWatch {
	return &podWatch{
		changed: make(chan struct{}, 1), bare: bare, pods: map[types.UID]pod{}, byName: map[string]*tally{}, had: map[string]bool{},
		unplaced: map[string]pod{},
	}
}

// watchPods starts the watch and waits until it has seen every pod of the run.
func watchPods(ctx context.Context, c *Config) (*podWatch, error) {
	w := newPodWatch(c.Replay != nil)
	if c.Waited != nil {
		w.waits = newPodWaits(c.Clock)
	}
	namespace := c.Namespace
	if c.Replay != nil { // it has several
		namespace = metav1.NamespaceAll
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = workload.LabelRun + "=" + c.RunID }),
		informers.WithTransform(stripPod))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(watched.Handler(func(was, is *corev1.Pod, _ bool) {
		if is == nil {
			w.drop(was)
			w.vanish(was)
		} else {
			w.set(is)
		}
	}))
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
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
			DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status: corev1.PodStatus{Conditions: p.Status.Conditions},
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
	now := w.pod(p)
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
	w.waits.see(now, now.bound)
	t := w.byName[now.deployment]
	if t == nil {
		t = &tally{}
		w.byName[now.deployment] = t
	}
	if !known {
		t.created++
		w.changes++
	}
	if now.bound && !old.bound {
		t.bound++
		w.had[now.who] = true
		w.changes++
	}
	w.pods[p.UID] = now
	w.notify()
}

// pod returns the state of a pod, without the scheduler's reason.
func (w *podWatch) pod(p *corev1.Pod) pod {
	out := pod{
		namespace: p.Namespace, name: p.Name, deployment: p.Labels[workload.LabelName], who: string(p.UID), bound: p.Spec.NodeName != "",
	}
	if w.bare {
		out.deployment, out.who = p.Name, p.Name
	}
	return out
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
	w.changes++
	t := w.byName[old.deployment]
	t.created--
	switch {
	case old.bound:
		t.bound--
	case p.Spec.NodeName != "": // bound since the last event
		w.had[old.who] = true
		w.waits.see(old, true)
	default:
		w.unplaced[old.who] = old
	}
	if *t == (tally{}) {
		delete(w.byName, old.deployment)
	}
	w.notify()
}

// vanish notes a pod that the API server has deleted.
func (w *podWatch) vanish(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = append(w.gone, w.pod(p))
	w.notify()
}

// takeGone returns the pods that the API server has deleted since the last call.
func (w *podWatch) takeGone() []pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.gone
	w.gone = nil
	return out
}

func (w *podWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// count sums up the pods of the Deployments. progress grows whenever a pod is created, bound or deleted.
func (w *podWatch) count(of map[string]workload.Deployment) (t tally, progress int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range of {
		if d := w.byName[name]; d != nil {
			t.created += d.created
			t.bound += d.bound
		}
	}
	return t, w.changes
}

// placed returns the number of pods that ever had a node since the watch began.
func (w *podWatch) placed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.had)
}

// leftUnplaced counts the deleted pods of the Deployments that never had a node, by the reason.
func (w *podWatch) leftUnplaced(of map[string]workload.Deployment) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, p := range w.unplaced {
		if _, ok := of[p.deployment]; ok && !w.had[p.who] {
			out[p.reason]++
		}
	}
	return out
}

// bound returns the number of a Deployment's pods with a node.
func (w *podWatch) bound(deployment string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.byName[deployment]; t != nil {
		return t.bound
	}
	return 0
}

// refused returns the number of the Deployments' pods that the scheduler has found unschedulable.
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
