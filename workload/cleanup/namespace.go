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
	// Keep says why it must stay, and is empty if it may go: somebody else has something
	// in it, or that cannot be ruled out.
	Keep string `json:"keep,omitempty"`

	uid types.UID
}

// Namespaces lists the namespaces that the scope's runs made, and whether anything outside
// the scope is in them.
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
		why := fmt.Sprintf("not every kind of object can be listed (%v)", err)
		for i := range out {
			out[i].Keep = why
		}
		return out, nil
	}
	for i := range out {
		if out[i].Keep, err = c.strangers(ctx, s, out[i].Name, kinds); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// kinds are the namespaced kinds that can be listed and deleted: what a person may have put
// into a namespace.
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

// strangers says what is in a namespace besides the scope's objects and what Kubernetes puts
// into every namespace by itself. Empty means nothing.
func (c *Client) strangers(ctx context.Context, s Scope, namespace string, kinds []schema.GroupVersionResource) (string, error) {
	const enough = 3
	var found []string
	for _, kind := range kinds {
		err := c.each(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) bool {
			if !s.holds(o.Labels) && !automatic(kind.Resource, o) {
				found = append(found, kind.Resource+"/"+o.Name)
			}
			return len(found) <= enough
		})
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			continue // the kind went away, or only looks as if it could be listed
		case err != nil:
			return fmt.Sprintf("it may hold other objects (%v)", err), nil
		}
		if len(found) > enough {
			return "it holds other objects: " + strings.Join(found[:enough], ", ") + " and more", nil
		}
	}
	if len(found) > 0 {
		return "it holds other objects: " + strings.Join(found, ", "), nil
	}
	return "", nil
}

// automatic tells whether Kubernetes itself made the object: in each new namespace, or for
// the default service account of clusters before 1.24.
func automatic(resource string, o *metav1.PartialObjectMetadata) bool {
	switch resource {
	case "serviceaccounts":
		return o.Name == "default"
	case "configmaps":
		return o.Name == "kube-root-ca.crt"
	case "secrets":
		return o.Annotations["kubernetes.io/service-account.name"] == "default"
	}
	return false
}

// RemoveNamespaces deletes those of the namespaces that need not be kept, and returns when
// they are gone.
func (c *Client) RemoveNamespaces(ctx context.Context, list []Namespace) error {
	for _, n := range list {
		if n.Keep != "" {
			continue
		}
		// The precondition spares a namespace that somebody has made anew under the name.
		err := c.Metadata.Resource(namespaces).Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete namespace %s: %w", n.Name, err)
		}
	}
	for _, n := range list {
		for n.Keep == "" {
			o, err := c.Metadata.Resource(namespaces).Get(ctx, n.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && o.UID != n.uid {
				break
			}
			if err == nil {
				err = c.pause(ctx, poll)
			}
			if err != nil {
				return fmt.Errorf("wait for the end of namespace %s: %w", n.Name, err)
			}
		}
	}
	return nil
}
