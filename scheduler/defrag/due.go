package defrag

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plan"
)

// due is a moved pod, for which its owner makes another one.
type due struct {
	move      plan.Move
	old       *v1.Pod
	pod       *v1.Pod // the other one; nil before it exists
	nominated bool
}

// back reports whether the new pod runs.
func (d *due) back() bool {
	if d.pod == nil {
		return false
	}
	return d.pod.Status.Phase == v1.PodSucceeded || slices.ContainsFunc(d.pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// bigger reports whether the new pod requests more than the old one, so that the plan does not hold for it.
func (d *due) bigger() bool {
	was, _ := kube.Pod(d.old)
	is, _ := kube.Pod(d.pod)
	return !is.Requests.Within(was.Requests)
}

// returns follows the pods of a cluster, and finds those that come back.
type returns struct {
	client  kubernetes.Interface
	pods    cache.Store
	changed chan struct{} // something has

	mu   sync.Mutex
	seen map[types.UID]bool // pods that are not a moved pod's new one
	due  []*due
	ends map[types.UID]bool // evicted pods that are still there
}

// follow begins to follow the pods; ctx ends it. It returns when all present pods are known.
func follow(ctx context.Context, c kubernetes.Interface) (*returns, error) {
	r := &returns{client: c, changed: make(chan struct{}, 1), seen: map[types.UID]bool{}, ends: map[types.UID]bool{}}
	shared := informers.NewSharedInformerFactory(c, 0)
	pods := shared.Core().V1().Pods().Informer()
	handle, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.is(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { r.is(o.(*v1.Pod)) },
		DeleteFunc: r.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("follow the pods: %w", err)
	}
	r.pods = pods.GetStore()
	shared.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return r, nil
}

// is takes a pod's state. A new pod is the return of the first due pod of the same owner.
func (r *returns) is(p *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.due {
		if d.pod != nil && d.pod.UID == p.UID {
			d.pod = p
			r.signal()
			return
		}
	}
	if r.seen[p.UID] {
		return
	}
	r.seen[p.UID] = true
	for _, d := range r.due {
		if d.pod == nil && d.old.Namespace == p.Namespace && ownerOf(d.old) == ownerOf(p) {
			d.pod = p
			r.signal()
			return
		}
	}
}

// gone takes a pod's end. A new pod that ends before it runs is due again.
func (r *returns) gone(o any) {
	if last, is := o.(cache.DeletedFinalStateUnknown); is {
		o = last.Obj
	}
	p, is := o.(*v1.Pod)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, p.UID)
	if r.ends[p.UID] {
		delete(r.ends, p.UID)
		r.signal()
	}
	for _, d := range r.due {
		if d.pod != nil && d.pod.UID == p.UID && !d.back() {
			d.pod = nil
		}
	}
}

func (r *returns) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// ownerOf returns the UID of a pod's controller; "" if it has none.
func ownerOf(p *v1.Pod) types.UID {
	if o := metav1.GetControllerOf(p); o != nil {
		return o.UID
	}
	return ""
}

// on returns how many pods of an owner a node has.
func (r *returns) on(node string, owner types.UID) (n int) {
	for _, o := range r.pods.List() {
		if p := o.(*v1.Pod); p.Spec.NodeName == node && ownerOf(p) == owner && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// expect notes that a pod will come back. cancel takes that back.
func (r *returns) expect(m plan.Move, old *v1.Pod) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &due{move: m, old: old}
	r.due = append(r.due, d)
	r.ends[old.UID] = true
	underWay.Inc()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		underWay.Dec()
		delete(r.ends, old.UID)
		r.due = slices.DeleteFunc(r.due, func(x *due) bool { return x == d })
	}
}

// ending returns the number of evicted pods that are still there.
func (r *returns) ending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends)
}

// away reports whether a pod of an owner, other than that of a move, is evicted and not back yet.
func (r *returns) away(m plan.Move, owner types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.due, func(d *due) bool { return d.move.UID != m.UID && ownerOf(d.old) == owner })
}

// take returns the pods that are back, and forgets them. missing are the others. It asks the scheduler to try the plan's node
// first for new pods that wait.
func (r *returns) take(ctx context.Context) (back, missing []due, err error) {
	r.mu.Lock()
	var wait []*due
	for _, d := range r.due {
		switch {
		case d.back():
			back = append(back, *d)
			continue
		case d.pod != nil && d.pod.Spec.NodeName == "" && !d.nominated:
			d.nominated = true
			wait = append(wait, &due{move: d.move, pod: d.pod})
		}
		missing = append(missing, *d)
	}
	r.due = slices.DeleteFunc(r.due, (*due).back)
	r.mu.Unlock()
	for _, d := range wait {
		if err := nominate(ctx, r.client, d.pod, d.move.To); err != nil {
			return back, missing, err
		}
	}
	return back, missing, nil
}

// nominate names the node that a waiting pod shall get, which kube-scheduler tries first. A pod
// that it has placed at once stays where it is.
func nominate(ctx context.Context, c kubernetes.Interface, p *v1.Pod, node string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if passes(err) {
		return nil
	}
	return err
}
