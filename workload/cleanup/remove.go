package cleanup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	poll     = 300 * time.Millisecond // shortest pause between two lists of the remaining objects
	listCost = 10                     // a pause is at least this many times as long as the last list took
	again    = 5 * time.Second        // time after which remaining objects are deleted again
)

// Remove deletes the scope's objects and waits until they are gone. progress, if not nil, is
// called repeatedly from the caller's goroutine with the number of remaining objects. If ctx ends
// first, the error names the remaining objects.
func (c *Client) Remove(ctx context.Context, s Scope, progress func(left Counts)) error {
	if progress == nil {
		progress = func(Counts) {}
	}
	for {
		left, err := c.Find(ctx, s)
		if err != nil {
			return withRemaining(ctx, left, err)
		}
		progress(left.Counts())
		if len(left.Objects) == 0 {
			return nil
		}
		if left, err = c.deleteAndWatch(ctx, s, left, progress); err != nil {
			return withRemaining(ctx, left, err)
		}
	}
}

// deleteAndWatch requests the deletions once. It lists the remaining objects until none is left
// or until it is time to request the deletions again, because controllers may have made new pods.
func (c *Client) deleteAndWatch(ctx context.Context, s Scope, left Found, progress func(Counts)) (Found, error) {
	// Deleting a collection of ten thousand pods takes many seconds, so it runs in the
	// background while this goroutine reports progress.
	done := make(chan error, 1)
	go func(in []string) { done <- c.deleteCollections(ctx, s, in) }(left.namespaces())
	requested, wait := false, poll
	for start := c.Clock.Now(); len(left.Objects) > 0 && !(requested && c.Clock.Since(start) > again); {
		select {
		case err := <-done:
			if err != nil {
				return left, err
			}
			requested, done = true, nil
			start = c.Clock.Now()
			continue
		case <-ctx.Done():
		case <-c.Clock.After(wait):
		}
		begin := c.Clock.Now()
		next, err := c.Find(ctx, s)
		wait = max(poll, listCost*c.Clock.Since(begin)) // lists slow the server's deletions down
		if err != nil {
			if done != nil {
				err = errors.Join(err, <-done)
			}
			return left, err
		}
		left = next
		progress(left.Counts())
	}
	if done != nil {
		return left, <-done
	}
	return left, nil
}

// deleteCollections deletes the scope's objects in the given namespaces, owners first.
func (c *Client) deleteCollections(ctx context.Context, s Scope, in []string) error {
	background := metav1.DeletePropagationBackground
	for _, kind := range workloads {
		o := metav1.DeleteOptions{PropagationPolicy: &background}
		if kind.Resource == "pods" && c.Force {
			o.GracePeriodSeconds = ptr.To[int64](0)
		}
		for _, ns := range in {
			err := c.Metadata.Resource(kind).Namespace(ns).DeleteCollection(ctx, o, metav1.ListOptions{LabelSelector: s.selector()})
			if err != nil && !temporary(err) {
				return fmt.Errorf("delete %s in namespace %s: %w", kind.Resource, ns, err)
			}
		}
	}
	return nil
}

// temporary reports whether the deletion may succeed if it is repeated: the server gave up on a
// large collection, or the objects are gone.
func temporary(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err)
}

// withRemaining adds the remaining objects to err if ctx has ended.
func withRemaining(ctx context.Context, left Found, err error) error {
	if ctx.Err() == nil || len(left.Objects) == 0 {
		return err
	}
	o := left.Objects[len(left.Objects)-1]
	err = ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%d objects remain, among them %s %s in namespace %s: %w", len(left.Objects), o.Kind, o.Name, o.Namespace, err)
}
