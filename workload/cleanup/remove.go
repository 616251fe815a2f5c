package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/table"
	"gnnsched/workload"
)

const (
	poll     = 300 * time.Millisecond // shortest pause between two lists of the remaining objects
	pollMax  = 20 * time.Second       // longest such pause
	listCost = 10                     // up to pollMax, a pause is at least this many times as long as the last list took
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
		left, err := c.find(ctx, s)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
		next, err := c.find(ctx, s)
		wait = min(max(poll, listCost*c.Clock.Since(begin)), pollMax) // lists slow the server's deletions down
		if err != nil {
			if done != nil {
				cancel()
				<-done
			}
			return left, err
		}
		left = next
		progress(left.Counts())
	}
	cancel()
	if done != nil {
		<-done // no further request is needed: nothing is left
	}
	return left, nil
}

// find is Find, with retries.
func (c *Client) find(ctx context.Context, s Scope) (left Found, err error) {
	err = c.retry(ctx, func() error {
		left, err = c.Find(ctx, s)
		return err
	})
	return left, err
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

// Formats are the output formats of [Inventory.Write].
var Formats = []string{"table", "name", "json"}

// Write writes the inventory: as a table with a row for each run and namespace, as names that
// kubectl delete accepts, or as JSON.
func (i Inventory) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return i.writeTable(w)
	case "name":
		return i.writeNames(w)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(i)
	}
	return fmt.Errorf("unknown output format %q", format)
}

func (i Inventory) writeNames(w io.Writer) error {
	for _, o := range i.Objects {
		line := fmt.Sprintf("%s/%s -n %s\n", o.Kind, o.Name, o.Namespace)
		if o.Kind == classes {
			line = fmt.Sprintf("%s/%s\n", o.Kind, o.Name)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespaces/%s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}

func (i Inventory) writeTable(w io.Writer) error {
	if i.Empty() {
		_, err := fmt.Fprintln(w, "nothing to remove")
		return err
	}
	t := table.Of("NAMESPACE", "RUN", "DEPLOYMENTS", "REPLICASETS", "PODS", "CLAIMS")
	for _, g := range i.Groups() {
		t.Add(g.Namespace, g.Run, g.Deployments, g.ReplicaSets, g.Pods, g.Claims)
	}
	if err := t.Columns(w); err != nil {
		return err
	}
	for _, o := range i.Objects {
		if o.Kind != classes {
			continue
		}
		if _, err := fmt.Fprintf(w, "priority class %s\n", o.Name); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespace %s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}

// Namespace is a namespace that a run made.
type Namespace struct {
	Name string `json:"name"`
	Run  string `json:"run"`
	// Keep is the reason why the namespace must stay: it holds other objects, or may hold some.
	// It is empty if the namespace can be deleted.
	Keep string `json:"keep,omitempty"`

	uid types.UID
}

// Namespaces lists the namespaces that the scope's runs made, and finds out which must stay.
func (c *Client) Namespaces(ctx context.Context, s Scope) ([]Namespace, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var out []Namespace
	err := c.each(ctx, namespaces, "", s.selector(), func(o *metav1.PartialObjectMetadata) bool {
		if s.covers(o.Labels) && (s.Namespace == "" || o.Name == s.Namespace) {
			out = append(out, Namespace{Name: o.Name, Run: o.Labels[workload.LabelRun], uid: o.UID})
		}
		return true
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	kinds, err := c.kinds()
	if err != nil {
		reason := fmt.Sprintf("not every kind of object can be listed (%v)", err)
		for i := range out {
			out[i].Keep = reason
		}
		return out, nil
	}
	for i := range out {
		if out[i].Keep, err = c.otherObjects(ctx, s, out[i].Name, kinds); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// kinds returns the namespaced kinds that can be listed and deleted, without events.
func (c *Client) kinds() ([]schema.GroupVersionResource, error) {
	lists, err := c.Kinds.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, err
	}
	var out []schema.GroupVersionResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if r.Name != "events" && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

// otherObjects describes the objects of a namespace that are neither in the scope nor made by
// Kubernetes itself. It returns "" if there are none.
func (c *Client) otherObjects(ctx context.Context, s Scope, namespace string, kinds []schema.GroupVersionResource) (string, error) {
	const shown = 3
	var found []string
	for _, kind := range kinds {
		err := c.each(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) bool {
			if !s.covers(o.Labels) && !automatic(kind.Resource, o) {
				found = append(found, kind.Resource+"/"+o.Name)
			}
			return len(found) <= shown
		})
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			continue // the kind is gone, or cannot be listed after all
		case err != nil:
			return fmt.Sprintf("it may hold other objects (%v)", err), nil
		}
		if len(found) > shown {
			return "it holds other objects: " + strings.Join(found[:shown], ", ") + " and more", nil
		}
	}
	if len(found) > 0 {
		return "it holds other objects: " + strings.Join(found, ", "), nil
	}
	return "", nil
}

// automatic reports whether Kubernetes makes such an object in every namespace, or deletes it with the pod that owns it.
// Clusters before 1.24 make a secret for the default service account.
func automatic(resource string, o *metav1.PartialObjectMetadata) bool {
	switch resource {
	case "serviceaccounts":
		return o.Name == "default"
	case "configmaps":
		return o.Name == "kube-root-ca.crt"
	case claims: // such as kube-scheduler makes for extended resources
		return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "Pod" })
	case "secrets":
		return o.Annotations["kubernetes.io/service-account.name"] == "default"
	}
	return false
}

// RemoveNamespaces deletes the namespaces without a reason to stay and waits until they are gone.
func (c *Client) RemoveNamespaces(ctx context.Context, list []Namespace) error {
	for _, n := range removable(list) {
		err := c.retry(ctx, func() error {
			// The precondition protects a namespace that was created again under the same name.
			err := c.Metadata.Resource(namespaces).Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.uid}})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("delete namespace %s: %w", n.Name, err)
		}
	}
	for _, n := range removable(list) {
		if err := c.waitForNamespace(ctx, n); err != nil {
			return fmt.Errorf("wait for the deletion of namespace %s: %w", n.Name, err)
		}
	}
	return nil
}

// waitForNamespace waits until the namespace is gone.
func (c *Client) waitForNamespace(ctx context.Context, n Namespace) error {
	for {
		gone := false
		err := c.retry(ctx, func() error {
			o, err := c.Metadata.Resource(namespaces).Get(ctx, n.Name, metav1.GetOptions{})
			gone = apierrors.IsNotFound(err) || err == nil && o.UID != n.uid
			if gone {
				return nil
			}
			return err
		})
		if err == nil && !gone {
			err = c.pause(ctx, poll)
		}
		if err != nil || gone {
			return err
		}
	}
}
