package state

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gnnsched/internal/watched"
)

// store hands the objects of a resource to the cluster.
type store[T any] struct {
	watched.Store[T]
	feed
}

func newStore[T any](read func(any) (T, error), put, gone func(T), all func([]T)) store[T] {
	f := newFeed()
	return store[T]{watched.Store[T]{Read: read, Put: put, Gone: gone, All: func(list []T) { all(list); f.markSynced() }}, f}
}

// feed signals that the first list of a store is complete.
type feed struct {
	synced chan struct{} // closed after the first list
	once   *sync.Once
}

func newFeed() feed { return feed{synced: make(chan struct{}), once: &sync.Once{}} }

func (f feed) markSynced() { f.once.Do(func() { close(f.synced) }) }

func nodeStore(c *Cluster) store[Node] {
	return newStore(strip("nodes", nodeOf), c.SetNode, func(n Node) { c.DeleteNode(n.Name) }, c.ReplaceNodes)
}

func podStore(c *Cluster, now func() time.Time) store[Pod] {
	return newStore(stripPod, func(p Pod) { c.SetPod(p, now()) }, func(p Pod) { c.deletePodNamed(p.Namespace, p.Name) },
		func(all []Pod) { c.ReplacePods(all, now()) })
}

func sliceStore(c *Cluster) store[*resourceapi.ResourceSlice] {
	as := func(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice { return s }
	return newStore(strip("resource slices", as), c.SetSlice, func(s *resourceapi.ResourceSlice) { c.deleteSlice(s.Name) }, c.replaceSlices)
}

func claimStore(c *Cluster) store[Claim] {
	return newStore(strip("resource claims", claimOf), c.SetClaim, func(x Claim) { c.deleteClaim(x.Namespace, x.Name) }, c.replaceClaims)
}

// strip returns a function that converts an API object, unless it is converted already.
func strip[API, T any](kind string, convert func(API) T) func(any) (T, error) {
	return func(obj any) (out T, err error) {
		switch o := obj.(type) {
		case API:
			return convert(o), nil
		case T:
			return o, nil
		}
		return out, fmt.Errorf("watch: a %T among the %s", obj, kind)
	}
}

func stripPod(obj any) (Pod, error) {
	if listed, is := obj.(*strippedPod); is {
		return listed.Pod, nil
	}
	return strip("pods", podOf)(obj)
}

// strippedPod wraps the few values that we keep of a pod, so that a list of client-go can carry them.
type strippedPod struct{ Pod }

// GetObjectKind implements runtime.Object.
func (*strippedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *strippedPod) DeepCopyObject() runtime.Object {
	return new(*p)
}

func stripList(list *v1.PodList) *metainternal.List {
	out := &metainternal.List{ListMeta: list.ListMeta, Items: make([]runtime.Object, len(list.Items))}
	for i := range list.Items {
		out.Items[i] = &strippedPod{podOf(&list.Items[i])}
	}
	return out
}
