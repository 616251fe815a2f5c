package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/workload"
)

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
		if s.holds(o.Labels) && (s.Namespace == "" || o.Name == s.Namespace) {
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
			if !s.holds(o.Labels) && !automatic(kind.Resource, o) {
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
