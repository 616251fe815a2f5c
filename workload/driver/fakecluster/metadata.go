package fakecluster

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// metadataClient is the cluster's metadata client. Client-go's own fake ignores limit and continue,
// which decide how large collections are deleted.
type metadataClient struct{ c *Cluster }

// Resource implements metadata.Interface.
func (m metadataClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	return metadataResource{c: m.c, kind: r}
}

type metadataResource struct {
	metadata.ResourceInterface // nil: the other methods are not supported
	c                          *Cluster
	kind                       schema.GroupVersionResource
	namespace                  string
}

// Namespace implements metadata.Getter.
func (r metadataResource) Namespace(ns string) metadata.ResourceInterface {
	r.namespace = ns
	return r
}

// List implements metadata.ResourceInterface. The continue token is the key of the page's last
// object.
func (r metadataResource) List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.page(ctx, o)
}

func (r metadataResource) page(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadataList{}
	for _, object := range r.c.all(r.kind, r.namespace) {
		p := r.c.partial(object)
		if selector.Matches(labels.Set(p.Labels)) && key(p) > o.Continue {
			out.Items = append(out.Items, *p)
		}
	}
	slices.SortFunc(out.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(key(&a), key(&b)) })
	if n := int(o.Limit); n > 0 && n < len(out.Items) {
		out.Items = out.Items[:n]
		out.Continue = key(&out.Items[n-1])
	}
	return out, nil
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// Get implements metadata.ResourceInterface.
func (r metadataResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	o, err := r.c.Client.Tracker().Get(r.kind, r.namespace, name)
	if err != nil {
		return nil, err
	}
	return r.c.partial(o), nil
}

// Delete implements metadata.ResourceInterface.
func (r metadataResource) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.c.Client.Tracker().Delete(r.kind, r.namespace, name)
}

// DeleteCollection implements metadata.ResourceInterface.
func (r metadataResource) DeleteCollection(ctx context.Context, _ metav1.DeleteOptions, o metav1.ListOptions) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.OnDelete != nil {
		if err := r.c.OnDelete(r.kind.Resource); err != nil {
			return err
		}
	}
	if r.namespace == "" {
		return errors.New("fakecluster: a real API server deletes collections only within one namespace")
	}
	list, err := r.page(ctx, o)
	if err != nil {
		return err
	}
	for i, object := range list.Items {
		if r.c.LargestDelete > 0 && i == r.c.LargestDelete {
			return &url.Error{
				Op: "Delete", URL: "https://fake/" + r.kind.Resource, Err: errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
			}
		}
		r.c.must(r.c.Client.Tracker().Delete(r.kind, object.Namespace, object.Name))
	}
	return nil
}
