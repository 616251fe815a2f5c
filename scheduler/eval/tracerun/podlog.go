package tracerun

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// podLog records when each pod of a namespace appeared, got a node and left. It watches the API server and asks
// no scheduler. Times are those at which its events came.
type podLog struct {
	changed chan struct{} // has an item after a change, until it is received
	stop    func()

	mu       sync.Mutex
	pods     map[string]*seenPod // by name, including pods that have left
	existing int
	pending  int      // existing, without a node and not refused
	bound    []string // names of pods that got a node since the last takeBound
}

// seenPod holds the observations of a pod. A time is zero before it happened.
type seenPod struct {
	pod                   cluster.Pod
	appeared, bound, left time.Time
	refused               bool // a scheduler reported that it fits nowhere
}

// watchPods starts the watch.
func watchPods(ctx context.Context, client kubernetes.Interface) (*podLog, error) {
	l := &podLog{changed: make(chan struct{}, 1), pods: map[string]*seenPod{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(steadyNamespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { l.see(o.(*corev1.Pod), time.Now()) },
		UpdateFunc: func(_, o any) { l.see(o.(*corev1.Pod), time.Now()) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if p, ok := o.(*corev1.Pod); ok {
				l.gone(p, time.Now())
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l.stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		l.stop()
		return nil, fmt.Errorf("watch the pods: %w", context.Cause(ctx))
	}
	return l, nil
}

// see notes a state of a pod.
func (l *podLog) see(p *corev1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[p.Name]
	if s == nil {
		pod, _ := kube.Pod(p) // this program wrote its request
		s = &seenPod{pod: pod, appeared: now}
		l.pods[p.Name] = s
		l.existing++
		l.pending++
	}
	pending := s.pending()
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			s.refused = true
		}
	}
	if p.Spec.NodeName != "" && s.bound.IsZero() {
		s.bound = now
		l.bound = append(l.bound, p.Name)
	}
	if pending && !s.pending() {
		l.pending--
	}
	l.notify()
}

// gone notes that a pod left, whose last state is p.
func (l *podLog) gone(p *corev1.Pod, now time.Time) {
	l.see(p, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[p.Name]
	if s.pending() {
		l.pending--
	}
	s.left = now
	l.existing--
}

// pending reports whether a scheduler has yet to decide on the pod for the first time.
func (s *seenPod) pending() bool { return s.bound.IsZero() && !s.refused && s.left.IsZero() }

func (l *podLog) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// takeBound returns the names of the pods that got a node since the last call, with the times.
func (l *podLog) takeBound() map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bound) == 0 {
		return nil
	}
	out := map[string]time.Time{}
	for _, name := range l.bound {
		out[name] = l.pods[name].bound
	}
	l.bound = nil
	return out
}

// counts returns the number of pods seen, of those the number that exist, and of those the number that wait for a first decision.
func (l *podLog) counts() (seen, existing, pending int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pods), l.existing, l.pending
}

// waiting returns the number of existing pods without a node.
func (l *podLog) waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pods {
		if s.bound.IsZero() && s.left.IsZero() {
			n++
		}
	}
	return n
}

// seenOf returns what was seen of a pod; nil if it never appeared.
func (l *podLog) seenOf(name string) *seenPod {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[name]
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// reset forgets all pods; none exists.
func (l *podLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods, l.bound, l.existing, l.pending = map[string]*seenPod{}, nil, 0, 0
}
