package live

import (
	"context"
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

// patience limits a scheduler's time for one pod. It decides within milliseconds; a machine that is busy may stand still for minutes.
const patience = 10 * time.Minute

// pods watches the pods of a namespace, and deletes them. It asks the API server, and no scheduler. Names of pods are used once.
type pods struct {
	client  kubernetes.Interface
	changed chan struct{} // has an item after a change, until it is received
	stop    func()

	mu   sync.Mutex
	last map[string]*corev1.Pod // last states by name, including pods that have left
	left map[string]bool
}

// watchPods starts the watch.
func watchPods(ctx context.Context, client kubernetes.Interface) (p *pods, err error) {
	p = &pods{client: client, changed: make(chan struct{}, 1), last: map[string]*corev1.Pod{}, left: map[string]bool{}}
	p.stop, err = watched.Pods(ctx, client, func(was, is *corev1.Pod, _ bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if is == nil {
			p.left[was.Name] = true
		} else {
			p.last[is.Name] = is
		}
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}, informers.WithNamespace(namespace))
	return p, err
}

// decided returns a pod once a scheduler has given it a node or refused it, and why it was refused. It fails if the pod is deleted before.
func (p *pods) decided(ctx context.Context, name string) (pod *corev1.Pod, refused string, err error) {
	gone := false
	err = p.wait(ctx, "kube-scheduler did not decide about pod "+name, func() bool {
		if pod, gone = p.last[name], p.left[name]; pod == nil || gone || pod.Spec.NodeName != "" {
			return gone || pod != nil
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				refused = c.Message
				return true
			}
		}
		return false
	})
	if err == nil && gone {
		err = fmt.Errorf("pod %s was deleted before kube-scheduler decided about it, and not by this program", name)
	}
	return pod, refused, err
}

// immediately deletes without a grace period.
var immediately = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// delete deletes a pod without grace period.
func (p *pods) delete(ctx context.Context, name string) error {
	if err := p.client.CoreV1().Pods(namespace).Delete(ctx, name, immediately); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// deleteAll deletes the pods with these fields without grace period.
func (p *pods) deleteAll(ctx context.Context, fields string) error {
	err := p.client.CoreV1().Pods(namespace).DeleteCollection(ctx, immediately, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

// clear deletes all pods, waiting pods first: otherwise they would get the others' room. It returns when they have left.
func (p *pods) clear(ctx context.Context) error {
	for _, fields := range []string{"spec.nodeName=", ""} {
		if err := p.deleteAll(ctx, fields); err != nil {
			return err
		}
	}
	return p.wait(ctx, "the pods do not leave", func() bool { return len(p.left) == len(p.last) })
}

// wait waits until check, which has the lock, returns true.
func (p *pods) wait(ctx context.Context, trouble string, check func() bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		done := check()
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return fmt.Errorf("%s for %v", trouble, patience)
		case <-p.changed:
		}
	}
}
