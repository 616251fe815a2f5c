package memcluster

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/tools/cache"
)

// sharedInformers lets several clusters use the same informers. From 1.37 on, a scheduler adds indexes of pods and of ResourceSlices, and an
// informer refuses a second index of the same name. Those of all clusters are equal, so a cluster uses an index that is there.
type sharedInformers struct {
	informers.SharedInformerFactory
}

// Core implements informers.SharedInformerFactory.
func (s sharedInformers) Core() core.Interface { return core.New(s, metav1.NamespaceAll, nil) }

// Resource implements informers.SharedInformerFactory.
func (s sharedInformers) Resource() resource.Interface {
	return resource.New(s, metav1.NamespaceAll, nil)
}

// InformerFor implements informers.SharedInformerFactory.
func (s sharedInformers) InformerFor(of runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return indexedOnce{s.SharedInformerFactory.InformerFor(of, make)}
}

// indexedOnce is an informer that keeps the indexes that it has.
type indexedOnce struct{ cache.SharedIndexInformer }

// AddIndexers implements cache.SharedIndexInformer.
func (i indexedOnce) AddIndexers(add cache.Indexers) error {
	add = maps.Clone(add)
	for name := range i.GetIndexer().GetIndexers() {
		delete(add, name)
	}
	return i.SharedIndexInformer.AddIndexers(add)
}
