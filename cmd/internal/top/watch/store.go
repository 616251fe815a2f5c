package watch

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"gnnsched/cmd/internal/top/state"
)

// store takes the place of client-go's object cache and writes to the cluster instead. It is a transforming store, so that
// client-go strips the objects of a streamed first list while it collects them.
type store[T any] struct {
	strip   func(obj any) (T, error) // keeps what the cluster needs of an object; it may see its own result
	set     func(T)
	remove  func(T)
	replace func([]T) // makes these the only ones
	feed
}

// feed signals that the first list of a store is complete.
type feed struct {
	synced chan struct{} // closed after the first list
	once   *sync.Once
}

func newFeed() feed { return feed{synced: make(chan struct{}), once: &sync.Once{}} }

func (f feed) markSynced() { f.once.Do(func() { close(f.synced) }) }

var _ cache.TransformingStore = (*store[state.Pod])(nil)

func nodeStore(c *state.Cluster) *store[state.Node] {
	return &store[state.Node]{
		strip: stripNode, set: c.SetNode, remove: func(n state.Node) { c.DeleteNode(n.Name) }, replace: c.ReplaceNodes, feed: newFeed(),
	}
}

func podStore(c *state.Cluster, now func() time.Time) *store[state.Pod] {
	return &store[state.Pod]{
		strip: stripPod, set: func(p state.Pod) { c.SetPod(p, now()) }, remove: func(p state.Pod) { c.DeletePod(p.Namespace, p.Name) },
		replace: func(all []state.Pod) { c.ReplacePods(all, now()) }, feed: newFeed(),
	}
}

func sliceStore(c *state.Cluster) *store[*resourceapi.ResourceSlice] {
	return &store[*resourceapi.ResourceSlice]{
		strip: stripSlice, set: c.SetSlice, remove: func(s *resourceapi.ResourceSlice) { c.DeleteSlice(s.Name) },
		replace: c.ReplaceSlices, feed: newFeed(),
	}
}

func claimStore(c *state.Cluster) *store[state.Claim] {
	return &store[state.Claim]{
		strip: stripClaim, set: c.SetClaim, remove: func(x state.Claim) { c.DeleteClaim(x.Namespace, x.Name) },
		replace: c.ReplaceClaims, feed: newFeed(),
	}
}

// Transformer implements cache.TransformingStore.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.strip(obj) }
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store[T]) Update(obj any) error {
	x, err := s.strip(obj)
	if err == nil {
		s.set(x)
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (s *store[T]) Delete(obj any) error {
	x, err := s.strip(obj)
	if err == nil {
		s.remove(x)
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (s *store[T]) Replace(list []any, _ string) error {
	all := make([]T, 0, len(list))
	for _, obj := range list {
		x, err := s.strip(obj)
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	s.replace(all)
	s.markSynced()
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing: the sums are always up to date.
func (*store[T]) Resync() error { return nil }

func stripNode(obj any) (state.Node, error) {
	switch o := obj.(type) {
	case *v1.Node:
		return state.NodeOf(o), nil
	case state.Node:
		return o, nil
	}
	return state.Node{}, fmt.Errorf("watch: a %T among the nodes", obj)
}

func stripPod(obj any) (state.Pod, error) {
	switch o := obj.(type) {
	case *v1.Pod:
		return state.PodOf(o), nil
	case *strippedPod:
		return o.Pod, nil
	case state.Pod:
		return o, nil
	}
	return state.Pod{}, fmt.Errorf("watch: a %T among the pods", obj)
}

func stripSlice(obj any) (*resourceapi.ResourceSlice, error) {
	if o, is := obj.(*resourceapi.ResourceSlice); is {
		return o, nil
	}
	return nil, fmt.Errorf("watch: a %T among the resource slices", obj)
}

func stripClaim(obj any) (state.Claim, error) {
	switch o := obj.(type) {
	case *resourceapi.ResourceClaim:
		return state.ClaimOf(o), nil
	case state.Claim:
		return o, nil
	}
	return state.Claim{}, fmt.Errorf("watch: a %T among the resource claims", obj)
}

// strippedPod wraps the few values that we keep of a pod, so that a list of client-go can carry them.
type strippedPod struct{ state.Pod }

// GetObjectKind implements runtime.Object.
func (*strippedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *strippedPod) DeepCopyObject() runtime.Object {
	q := *p
	return &q
}

func stripList(list *v1.PodList) *metainternal.List {
	out := &metainternal.List{ListMeta: list.ListMeta, Items: make([]runtime.Object, len(list.Items))}
	for i := range list.Items {
		out.Items[i] = &strippedPod{state.PodOf(&list.Items[i])}
	}
	return out
}
