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
	return newStore(stripNode, c.SetNode, func(n Node) { c.DeleteNode(n.Name) }, c.ReplaceNodes)
}

func podStore(c *Cluster, now func() time.Time) store[Pod] {
	return newStore(stripPod, func(p Pod) { c.SetPod(p, now()) }, func(p Pod) { c.deletePodNamed(p.Namespace, p.Name) },
		func(all []Pod) { c.ReplacePods(all, now()) })
}

func sliceStore(c *Cluster) store[*resourceapi.ResourceSlice] {
	return newStore(stripSlice, c.SetSlice, func(s *resourceapi.ResourceSlice) { c.deleteSlice(s.Name) }, c.replaceSlices)
}

func claimStore(c *Cluster) store[Claim] {
	return newStore(stripClaim, c.SetClaim, func(x Claim) { c.deleteClaim(x.Namespace, x.Name) }, c.replaceClaims)
}

func stripNode(obj any) (Node, error) {
	switch o := obj.(type) {
	case *v1.Node:
		return nodeOf(o), nil
	case Node:
		return o, nil
	}
	return Node{}, fmt.Errorf("watch: a %T among the nodes", obj)
}

func stripPod(obj any) (Pod, error) {
	switch o := obj.(type) {
	case *v1.Pod:
		return podOf(o), nil
	case *strippedPod:
		return o.Pod, nil
	case Pod:
		return o, nil
	}
	return Pod{}, fmt.Errorf("watch: a %T among the pods", obj)
}

func stripSlice(obj any) (*resourceapi.ResourceSlice, error) {
	if o, is := obj.(*resourceapi.ResourceSlice); is {
		return o, nil
	}
	return nil, fmt.Errorf("watch: a %T among the resource slices", obj)
}

func stripClaim(obj any) (Claim, error) {
	switch o := obj.(type) {
	case *resourceapi.ResourceClaim:
		return claimOf(o), nil
	case Claim:
		return o, nil
	}
	return Claim{}, fmt.Errorf("watch: a %T among the resource claims", obj)
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
