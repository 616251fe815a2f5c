package watch

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"gnnsched/cmd/internal/top/state"
)

// feed is the common part of the two stores: the cluster that they write to, and a signal that
// the first list is complete.
type feed struct {
	cluster *state.Cluster
	synced  chan struct{} // closed after the first list
	once    *sync.Once
}

func newFeed(c *state.Cluster) feed {
	return feed{cluster: c, synced: make(chan struct{}), once: &sync.Once{}}
}

// nodeStore and podStore take the place of client-go's object cache and write to the cluster
// instead. They are transforming stores, so that client-go strips the objects of a streamed
// first list while it collects them.
type nodeStore struct{ feed }

type podStore struct {
	feed
	now func() time.Time
}

var (
	_ cache.TransformingStore = (*nodeStore)(nil)
	_ cache.TransformingStore = (*podStore)(nil)
)

// Transformer implements cache.TransformingStore.
func (s *nodeStore) Transformer() cache.TransformFunc { return stripNode }

// Transformer implements cache.TransformingStore.
func (s *podStore) Transformer() cache.TransformFunc { return stripPod }

func stripNode(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1.Node:
		return state.NodeOf(o), nil
	case state.Node: // a transformer may see its own result
		return o, nil
	}
	return nil, fmt.Errorf("watch: a %T among the nodes", obj)
}

func stripPod(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1.Pod:
		return &strippedPod{state.PodOf(o)}, nil
	case *strippedPod:
		return o, nil
	}
	return nil, fmt.Errorf("watch: a %T among the pods", obj)
}

// strippedPod wraps the few values that we keep of a pod, so that client-go can carry them.
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

func (s *nodeStore) Add(obj any) error { return s.Update(obj) }

func (s *nodeStore) Update(obj any) error {
	n, err := stripNode(obj)
	if err != nil {
		return err
	}
	s.cluster.SetNode(n.(state.Node))
	return nil
}

func (s *nodeStore) Delete(obj any) error {
	n, err := stripNode(obj)
	if err != nil {
		return err
	}
	s.cluster.DeleteNode(n.(state.Node).Name)
	return nil
}

func (s *nodeStore) Replace(list []any, _ string) error {
	nodes := make([]state.Node, 0, len(list))
	for _, obj := range list {
		n, err := stripNode(obj)
		if err != nil {
			return err
		}
		nodes = append(nodes, n.(state.Node))
	}
	s.cluster.ReplaceNodes(nodes)
	s.markSynced()
	return nil
}

func (s *podStore) Add(obj any) error { return s.Update(obj) }

func (s *podStore) Update(obj any) error {
	p, err := stripPod(obj)
	if err != nil {
		return err
	}
	s.cluster.SetPod(p.(*strippedPod).Pod, s.now())
	return nil
}

func (s *podStore) Delete(obj any) error {
	p, err := stripPod(obj)
	if err != nil {
		return err
	}
	s.cluster.DeletePod(p.(*strippedPod).Namespace, p.(*strippedPod).Name)
	return nil
}

func (s *podStore) Replace(list []any, _ string) error {
	pods := make([]state.Pod, 0, len(list))
	for _, obj := range list {
		p, err := stripPod(obj)
		if err != nil {
			return err
		}
		pods = append(pods, p.(*strippedPod).Pod)
	}
	s.cluster.ReplacePods(pods, s.now())
	s.markSynced()
	return nil
}

// Resync implements cache.Store. It does nothing: the sums are always up to date.
func (feed) Resync() error { return nil }

func (f feed) markSynced() { f.once.Do(func() { close(f.synced) }) }
