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
	poll  = 300 * time.Millisecond // least time between two looks at what is left
	share = 10                     // looking takes at most one part in so many of the time
	again = 5 * time.Second        // before objects that are still there are deleted once more
)

// Remove deletes what the scope holds and returns when it is gone. progress, unless it is
// nil, is told now and then what is left; it is called from this goroutine. When ctx ends
// first, the error says what was still there.
func (c *Client) Remove(ctx context.Context, s Scope, progress func(left Counts)) error {
	if progress == nil {
		progress = func(Counts) {}
	}
	for {
		left, err := c.Find(ctx, s)
		if err != nil {
			return stuck(ctx, left, err)
		}
		progress(left.Counts())
		if len(left.Objects) == 0 {
			return nil
		}
		if left, err = c.deleteAndWatch(ctx, s, left, progress); err != nil {
			return stuck(ctx, left, err)
		}
	}
}

// deleteAndWatch issues the deletions once and looks at what is left until nothing is, or
// until it is time to issue them again: a controller may have made another pod meanwhile.
func (c *Client) deleteAndWatch(ctx context.Context, s Scope, left Found, progress func(Counts)) (Found, error) {
	// One collection of ten thousand pods is a request of many seconds: it goes on in the
	// background while this goroutine reports.
	done := make(chan error, 1)
	go func(in []string) { done <- c.deleteCollections(ctx, s, in) }(left.namespaces())
	issued, wait := false, poll
	for start := c.Clock.Now(); len(left.Objects) > 0 && !(issued && c.Clock.Since(start) > again); {
		select {
		case err := <-done:
			if err != nil {
				return left, err
			}
			issued, start, done = true, c.Clock.Now(), nil
			continue
		case <-ctx.Done():
		case <-c.Clock.After(wait):
		}
		look := c.Clock.Now()
		next, err := c.Find(ctx, s)
		wait = max(poll, share*c.Clock.Since(look)) // the server that lists is the one that deletes
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

// deleteCollections deletes, owners first, in each namespace.
func (c *Client) deleteCollections(ctx context.Context, s Scope, in []string) error {
	background := metav1.DeletePropagationBackground
	for _, kind := range workloads {
		o := metav1.DeleteOptions{PropagationPolicy: &background}
		if kind.Resource == "pods" && c.Force {
			o.GracePeriodSeconds = ptr.To[int64](0)
		}
		for _, ns := range in {
			err := c.Metadata.Resource(kind).Namespace(ns).DeleteCollection(ctx, o, metav1.ListOptions{LabelSelector: s.selector()})
			if err != nil && !passing(err) {
				return fmt.Errorf("delete %s in namespace %s: %w", kind.Resource, ns, err)
			}
		}
	}
	return nil
}

// passing tells whether an error is one that another round gets over: the server ran out of
// time or of room with a large collection, or what was to be deleted is gone.
func passing(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err)
}

// stuck adds what is left to the error of a wait that was broken off.
func stuck(ctx context.Context, left Found, err error) error {
	if ctx.Err() == nil || len(left.Objects) == 0 {
		return err
	}
	o := left.Objects[len(left.Objects)-1]
	err = ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%d objects are still there, among them %s %s in namespace %s: %w", len(left.Objects), o.Kind, o.Name, o.Namespace, err)
}
