package driver

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	"gnnsched/workload"
)

// create creates a Deployment, or its pods with Bare. The end of ctx does not interrupt it, so that the record agrees with the cluster; its
// own time limit is short. here is false for a pod of a record that is left out.
func (r *runner) create(ctx context.Context, d workload.Deployment) (here bool, err error) {
	fill := len(r.sum.Fills) + 1
	switch {
	case r.stage != nil:
		return r.stage.create(ctx, d)
	case r.Bare:
		if r.Speed > 0 { // otherwise they are there
			if err := r.createClaims(ctx, d, fill); err != nil {
				return false, err
			}
		}
		if err := r.createPods(ctx, d, fill); err != nil {
			return false, err
		}
	default:
		if err := create(ctx, r.Client.AppsV1().Deployments(r.Namespace), r.deployment(d, fill)); err != nil {
			return false, fmt.Errorf("create deployment %s: %w", d.Name, err)
		}
	}
	r.Log.Debug().Str("deployment", d.Name).Int("replicas", d.Replicas).Str("shape", d.Shape.Name).Msg("deployed")
	return true, nil
}

// createPods creates the pods of a Deployment without the Deployment itself, as Run does with Bare. It needs Client, Namespace,
// SchedulerName, RunID and Image, and GPUs if the pods request them in another way than by annotations. fill counts from 1.
func (c *Config) createPods(ctx context.Context, d workload.Deployment, fill int) error {
	for _, p := range c.pods(d, fill) {
		if err := create(ctx, c.Client.CoreV1().Pods(c.Namespace), p); err != nil {
			return fmt.Errorf("create pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// create creates an object, and tries again after transient errors.
func create[T any](ctx context.Context, in interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}, object T) error {
	return withRetry(ctx, func(call context.Context) error {
		_, err := in.Create(call, object, metav1.CreateOptions{})
		return err
	})
}

// each calls f with the objects of a list, which it asks for page by page.
func each[L, T runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions, f func(T),
) error {
	return pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }).
		EachListItem(ctx, o, func(x runtime.Object) error { f(x.(T)); return nil })
}

// withRetry calls ask, and again after transient errors. From the second call on, an AlreadyExists error counts as success.
func withRetry(ctx context.Context, ask func(context.Context) error) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	backoff := wait.Backoff{Steps: 5, Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1}
	tries := 0
	return retry.OnError(backoff, func(err error) bool { return ctx.Err() == nil && temporary(err) }, func() error {
		err := ask(call)
		if tries++; apierrors.IsAlreadyExists(err) && tries > 1 {
			return nil // an earlier try succeeded, but its answer was lost
		}
		return err
	})
}

// temporary reports whether a request may succeed if it is repeated.
func temporary(err error) bool {
	// An API server refuses pods of a new class until its cache has the class.
	unknownClass := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "no PriorityClass with name")
	return unknownClass || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsHTTP2ConnectionLost(err)
}

// remove deletes a Deployment, or its pods with Bare. It returns the number of pods that still existed.
func (r *runner) remove(ctx context.Context, d workload.Deployment) (removed int, err error) {
	if !r.Bare {
		o := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		err := r.Client.AppsV1().Deployments(r.Namespace).Delete(ctx, d.Name, o)
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("delete deployment %s: %w", d.Name, err)
		}
		return d.Replicas, nil
	}
	namespace := r.Namespace
	if r.stage != nil {
		namespace = r.stage.space(r.Replay.Parts[d.Name].Row.Namespace)
	}
	for i := range d.Replicas {
		err := r.Client.CoreV1().Pods(namespace).Delete(ctx, podName(d, i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("delete pod %s: %w", podName(d, i), err)
		}
		removed++
	}
	return removed, r.removeClaims(ctx, d)
}
