// Package watched helps to follow the objects of a resource by their watch.
package watched

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Handler returns an event handler of an informer that calls change with an object before and after. was is nil if it is new, is if it is
// gone. The watch may have missed that one was deleted and another one of the same name made. listed says that the object was there when
// the informer began.
func Handler[T any](change func(was, is *T, listed bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(is any, listed bool) { change(nil, is.(*T), listed) },
		UpdateFunc: func(was, is any) {
			if was != is {
				change(was.(*T), is.(*T), false)
			}
		},
		DeleteFunc: func(was any) {
			if gone, unseen := was.(cache.DeletedFinalStateUnknown); unseen {
				was = gone.Obj
			}
			if old, known := was.(*T); known { // client-go may have lost the object, too
				change(old, nil, false)
			}
		},
	}
}

// Pods calls change, as Handler does, for the pods that an informer with some options sees. It returns once the first list is complete.
func Pods(
	ctx context.Context, client kubernetes.Interface, change func(was, is *v1.Pod, listed bool), options ...informers.SharedInformerOption,
) (stop func(), err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(Handler(change)); err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.StartWithContext(ctx)
	if factory.WaitForCacheSyncWithContext(ctx).AsError() != nil {
		stop()
		return nil, fmt.Errorf("watch the pods: %w", context.Cause(ctx))
	}
	return stop, nil
}

// Version returns the resource version of an object. Those of one resource are numbers that grow with every write.
func Version(o metav1.Object) int64 {
	v, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return v
}

// Waits are the waits for versions of objects. Their owner's lock guards them, and makes the map.
type Waits map[types.UID]wait

// wait ends when an object is seen in a version or a later one.
type wait struct {
	version int64
	over    chan struct{}
}

// For returns a channel that is closed as soon as an object is seen in a version or a later one. seen is the version in which it was seen
// last; -1 if it was not.
func (w Waits) For(object types.UID, version, seen int64) <-chan struct{} {
	x, has := w[object]
	if !has || x.version < version {
		x = wait{version, make(chan struct{})}
		w[object] = x
	}
	w.Seen(object, seen)
	return x.over
}

// Seen ends the wait for an object if it was seen in the version or a later one.
func (w Waits) Seen(object types.UID, version int64) {
	if x, has := w[object]; has && version >= x.version {
		close(x.over)
		delete(w, object)
	}
}

// Store takes the place of client-go's object cache and hands on what a reflector sees. It keeps nothing. It is a transforming store, so
// that client-go reads the objects of a streamed first list while it collects them.
type Store[T any] struct {
	Read func(object any) (T, error) // keeps what is needed of an object; it may see its own result
	Put  func(T)                     // takes an object that is new or has changed
	Gone func(T)                     // takes one that was deleted
	All  func([]T)                   // takes a list, and makes it the only objects
}

var _ cache.TransformingStore = Store[int]{}

// Transformer implements cache.TransformingStore.
func (s Store[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.Read(object) }
}

// Add implements cache.ReflectorStore.
func (s Store[T]) Add(object any) error { return s.to(s.Put, object) }

// Update implements cache.ReflectorStore.
func (s Store[T]) Update(object any) error { return s.to(s.Put, object) }

// Delete implements cache.ReflectorStore.
func (s Store[T]) Delete(object any) error { return s.to(s.Gone, object) }

func (s Store[T]) to(take func(T), object any) error {
	x, err := s.Read(object)
	if err == nil {
		take(x)
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (s Store[T]) Replace(list []any, _ string) error {
	all := make([]T, len(list))
	for i, object := range list {
		var err error
		if all[i], err = s.Read(object); err != nil {
			return err
		}
	}
	s.All(all)
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing: whoever takes the objects is always up to date.
func (Store[T]) Resync() error { return nil }
