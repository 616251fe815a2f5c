package testbed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/internal/watched"
)

// Patience limits a scheduler's time for one pod. It decides within milliseconds unless the machine stands still.
const Patience = time.Minute

// Pods records when each pod of a namespace appeared, got a node and left, and deletes pods. It watches the API server and asks
// no scheduler. Times are those at which its events came.
type Pods struct {
	client    kubernetes.Interface
	namespace string
	changed   chan struct{} // has an item after a change, until it is received
	stop      func()

	mu    sync.Mutex
	pods  map[string]*SeenPod // by name, including pods that have left
	now   PodCounts
	bound []string // names of pods that got a node since the last TakeBound
}

// PodCounts are numbers of pods.
type PodCounts struct {
	Seen, Placed int // with pods that have left
	Existing     int
	Waiting      int // existing, without a node
	Pending      int // waiting, and not refused
}

// SeenPod holds the observations of a pod. A time is zero before it happened.
type SeenPod struct {
	*corev1.Pod           // its last state
	Appeared, Bound, Left time.Time
	Refused               *corev1.PodCondition // a scheduler's reason why it fits nowhere; nil if none gave one
}

// WatchPods starts the watch.
func WatchPods(ctx context.Context, client kubernetes.Interface, namespace string) (l *Pods, err error) {
	l = &Pods{client: client, namespace: namespace, changed: make(chan struct{}, 1), pods: map[string]*SeenPod{}}
	l.stop, err = watched.Pods(ctx, client, func(was, is *corev1.Pod, _ bool) {
		if is == nil {
			l.gone(was, time.Now())
		} else {
			l.see(is, time.Now())
		}
	}, informers.WithNamespace(namespace))
	return l, err
}

// Stop ends the watch.
func (l *Pods) Stop() { l.stop() }

// see notes a state of a pod.
func (l *Pods) see(p *corev1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[p.Name]
	if s == nil {
		s = &SeenPod{Appeared: now}
		l.pods[p.Name] = s
		l.now.Seen, l.now.Existing, l.now.Waiting, l.now.Pending = l.now.Seen+1, l.now.Existing+1, l.now.Waiting+1, l.now.Pending+1
	}
	pending := s.pending()
	s.Pod = p
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			s.Refused = &p.Status.Conditions[i]
		}
	}
	if p.Spec.NodeName != "" && s.Bound.IsZero() {
		s.Bound = now
		l.bound = append(l.bound, p.Name)
		l.now.Placed, l.now.Waiting = l.now.Placed+1, l.now.Waiting-1
	}
	if pending && !s.pending() {
		l.now.Pending--
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// gone notes that a pod left, whose last state is p.
func (l *Pods) gone(p *corev1.Pod, now time.Time) {
	l.see(p, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[p.Name]
	if s.pending() {
		l.now.Pending--
	}
	if s.Bound.IsZero() {
		l.now.Waiting--
	}
	s.Left = now
	l.now.Existing--
}

// pending reports whether a scheduler has yet to decide on the pod for the first time.
func (s *SeenPod) pending() bool { return s.Bound.IsZero() && s.Refused == nil && s.Left.IsZero() }

// TakeBound returns the names of the pods that got a node since the last call, with the times.
func (l *Pods) TakeBound() map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bound) == 0 {
		return nil
	}
	out := map[string]time.Time{}
	for _, name := range l.bound {
		out[name] = l.pods[name].Bound
	}
	l.bound = nil
	return out
}

// Counts returns the present numbers.
func (l *Pods) Counts() PodCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Seen returns what was seen of a pod; nil if it never appeared.
func (l *Pods) Seen(name string) *SeenPod {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pods[name]
	if s == nil {
		return nil
	}
	return new(*s)
}

// immediately deletes without a grace period.
var immediately = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// Delete deletes a pod without grace period.
func (l *Pods) Delete(ctx context.Context, name string) error {
	if err := l.client.CoreV1().Pods(l.namespace).Delete(ctx, name, immediately); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// DeleteAll deletes the pods with these fields without grace period.
func (l *Pods) DeleteAll(ctx context.Context, fields string) error {
	err := l.client.CoreV1().Pods(l.namespace).DeleteCollection(ctx, immediately, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

// Clear deletes all pods, waiting pods first: otherwise they would get the others' room. It forgets them, and deletes their claims.
// The nodes end the pods: a pod that is deleted without grace period could, for a moment, take a later one of its name with it.
func (l *Pods) Clear(ctx context.Context) error {
	for _, fields := range []string{"spec.nodeName=", ""} {
		err := l.client.CoreV1().Pods(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: fields})
		if err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
	}
	err := l.Wait(ctx, "the pods do not leave", func() (bool, int) {
		n := l.Counts().Existing
		return n == 0, -n
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.pods, l.bound, l.now = map[string]*SeenPod{}, nil, PodCounts{}
	l.mu.Unlock()
	return l.clearClaims(ctx)
}

// clearClaims deletes all claims, and waits until they have freed their devices.
func (l *Pods) clearClaims(ctx context.Context) error {
	api := l.client.ResourceV1().ResourceClaims(l.namespace)
	if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the resource claims: %w", err)
	}
	var failed error
	err := l.Wait(ctx, "the resource claims do not leave", func() (bool, int) {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = err
			return true, 0
		}
		return len(list.Items) == 0, -len(list.Items)
	})
	return errors.Join(err, failed)
}

// Wait waits until done, at most for Patience without progress.
func (l *Pods) Wait(ctx context.Context, trouble string, check func() (done bool, progress int)) error {
	last, since := 0, time.Now()
	for {
		done, progress := check()
		switch {
		case done:
			return nil
		case progress != last:
			last, since = progress, time.Now()
		case time.Since(since) > Patience:
			return fmt.Errorf("%s for %v", trouble, Patience)
		}
		if _, err := l.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Sleep waits for a time of at most a second, or until something changes. It reports whether it waited.
func (l *Pods) Sleep(ctx context.Context, d time.Duration) (waited bool, err error) {
	if ctx.Err() != nil || d <= 0 {
		return false, context.Cause(ctx)
	}
	timer := time.NewTimer(min(d, time.Second))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true, context.Cause(ctx)
	case <-timer.C:
	case <-l.changed:
	}
	return true, nil
}
