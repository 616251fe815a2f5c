package watched

import "k8s.io/client-go/tools/cache"

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
