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

// podWatch keeps count of the run's pods as the cluster has them.
type podWatch struct {
	changed chan struct{} // has an item after a change that nobody has looked at
	stop    func()

	mu      sync.Mutex
	pods    map[types.UID]pod
	byName  map[string]*tally // by Deployment
	bindups int               // pods ever seen to become bound
}

// pod is what is remembered of a pod.
type pod struct {
	deployment string
	bound      bool
	waitsFor   string // why it is not bound, in its scheduler's words; empty if nobody said
}

// tally counts the pods of one Deployment or of several. Pods that are on their way out
// count no more.
type tally struct{ created, bound int }

// watchPods starts the watch and returns once it knows every pod of the run.
func watchPods(ctx context.Context, c *Config) (*podWatch, error) {
	w := &podWatch{changed: make(chan struct{}, 1), pods: map[types.UID]pod{}, byName: map[string]*tally{}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
		informers.WithNamespace(c.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = workload.LabelRun + "=" + c.RunID }),
		informers.WithTransform(slim))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.set(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { w.set(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if p, ok := o.(*corev1.Pod); ok {
				w.drop(p.UID)
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

// slim keeps of a pod what podWatch reads: a run may have many thousands.
func slim(o any) (any, error) {
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
		w.drop(p.UID)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[p.UID]
	now := pod{deployment: p.Labels[workload.LabelName], bound: p.Spec.NodeName != ""}
	if !now.bound {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				now.waitsFor = cond.Message
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
		w.bindups++
	}
	w.pods[p.UID] = now
	w.tell()
}

func (w *podWatch) drop(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[uid]
	if !known {
		return
	}
	delete(w.pods, uid)
	t := w.byName[old.deployment]
	t.created--
	if old.bound {
		t.bound--
	}
	if *t == (tally{}) {
		delete(w.byName, old.deployment)
	}
	w.tell()
}

func (w *podWatch) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// count adds up the pods of the Deployments in live. progress grows whenever a pod came or
// was bound.
func (w *podWatch) count(live map[string]workload.Deployment) (t tally, progress int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range live {
		if d := w.byName[name]; d != nil {
			t.created += d.created
			t.bound += d.bound
		}
	}
	return t, w.bindups + len(w.pods)
}

// bound is how many pods of a Deployment have a node.
func (w *podWatch) bound(deployment string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.byName[deployment]; t != nil {
		return t.bound
	}
	return 0
}

// reasons counts the pending pods of the Deployments in live by what they wait for.
func (w *podWatch) reasons(live map[string]workload.Deployment) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, p := range w.pods {
		if _, ok := live[p.deployment]; ok && !p.bound {
			out[p.waitsFor]++
		}
	}
	return out
}
