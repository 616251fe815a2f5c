package room

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// conflicts counts the pods that gave way.
var conflicts = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "gnnsched", Name: "node_conflicts_total", StabilityLevel: metrics.ALPHA,
	Help: "Pods that were not bound to their node, because another scheduler had taken its room at the same time. They try again.",
}, []string{"profile"})

// overcommits counts pods that did not.
var overcommits = metrics.NewCounter(&metrics.CounterOpts{
	Namespace: "gnnsched", Name: "node_overcommits_total", StabilityLevel: metrics.ALPHA,
	Help: "Pods, of any scheduler, that were bound to a node whose pods then requested more than it has.",
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(conflicts, overcommits) })
