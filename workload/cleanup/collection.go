package cleanup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

const (
	// pageMax bounds the objects that one request deletes. An API server ends a request after a minute (its --request-timeout), in which it
	// may delete a few hundred objects or a few thousand. A page is halved whenever it fails.
	pageMax = 500
	pageMin = 10
	// attempts is the number of attempts for a request that fails each time. The pauses between them add up to about half a minute.
	attempts = 8
)

// deleteCollections deletes the scope's objects in the given namespaces, owners first.
func (c *Client) deleteCollections(ctx context.Context, s Scope, in []string) error {
	background := metav1.DeletePropagationBackground
	for _, kind := range workloads {
		o := metav1.DeleteOptions{PropagationPolicy: &background}
		if kind.Resource == "pods" && c.Force {
			o.GracePeriodSeconds = ptr.To[int64](0)
		}
		for _, ns := range in {
			if (ns == "") != (kind.Resource == classes) {
				continue
			}
			d := collection{client: c, kind: kind, namespace: ns, selector: s.selector(), options: o, page: pageMax}
			if err := d.delete(ctx); err != nil && !absent(kind, err) {
				return fmt.Errorf("delete %s in namespace %s: %w", kind.Resource, ns, err)
			}
		}
	}
	return nil
}

// collection is the deletion of a namespace's objects of one kind, a page at a time.
type collection struct {
	client    *Client
	kind      schema.GroupVersionResource
	namespace string
	selector  string
	options   metav1.DeleteOptions
	page      int64 // objects in the next page
}

// delete requests the deletion of every object.
func (d *collection) delete(ctx context.Context) error {
	for next := ""; ; {
		err := d.client.retry(ctx, func() (err error) {
			next, err = d.deletePage(ctx, next)
			if apierrors.IsResourceExpired(err) {
				next = "" // the server has forgotten the list: begin again
			}
			return err
		})
		if err != nil || next == "" {
			return err
		}
	}
}

// deletePage deletes the page that begins at a continue token, and returns the token of the next
// page, or "" after the last one. After an error it returns the token that it got.
func (d *collection) deletePage(ctx context.Context, at string) (next string, err error) {
	objects := d.client.Metadata.Resource(d.kind).Namespace(d.namespace)
	o := metav1.ListOptions{LabelSelector: d.selector, Limit: d.page, Continue: at}
	list, err := objects.List(ctx, o)
	if err != nil {
		return at, err
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	if err := objects.DeleteCollection(ctx, d.options, o); err != nil && !apierrors.IsNotFound(err) {
		d.page = max(d.page/2, pageMin)
		return at, err
	}
	return list.Continue, nil
}

// retry calls f until it succeeds, fails in a way that will not change, or has failed often.
func (c *Client) retry(ctx context.Context, f func() error) error {
	pauses := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: attempts}
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == attempts || refused(err) || ctx.Err() != nil {
			return err
		}
		if c.pause(ctx, pauses.Step()) != nil {
			return err
		}
	}
}

// refused reports whether the server understood a request and will not execute it, so that it is
// useless to repeat it.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false // no answer: the connection broke, or the server ended the request halfway
	}
	code := status.Status().Code
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsConflict(err), apierrors.IsResourceExpired(err):
		return false
	}
	return code >= 400 && code < 500
}
