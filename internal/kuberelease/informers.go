package kuberelease

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Informers returns a scheduler's informers, which do not resync. Several schedulers of a process may share them.
func Informers(client kubernetes.Interface) informers.SharedInformerFactory {
	own, shared := newInformers(client), informers.NewSharedInformerFactory(client, 0)
	as := func(i cache.SharedIndexInformer) func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return indexedOnce{i} }
	}
	shared.InformerFor(&v1.Pod{}, as(own.Core().V1().Pods().Informer()))
	shared.InformerFor(&resourceapi.ResourceSlice{}, as(own.Resource().V1().ResourceSlices().Informer()))
	return shared
}

// indexedOnce leaves out an index that the informer has already. Each scheduler adds the same indices of pods and slices, by the same
// names.
type indexedOnce struct{ cache.SharedIndexInformer }

// AddIndexers implements cache.SharedIndexInformer.
func (i indexedOnce) AddIndexers(all cache.Indexers) error {
	has := i.GetIndexer().GetIndexers()
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, _ cache.IndexFunc) bool { return has[name] != nil })
	return i.SharedIndexInformer.AddIndexers(all)
}
