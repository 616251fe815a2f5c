package usage

import (
	"context"

	"gnnsched/internal/cluster"
)

// Source measures usage.
type source interface {
	// Measure returns the present usage. With an error it returns the measurements that it could make.
	Measure(ctx context.Context) (measurement, error)
}

// measurement is one answer of a source, not checked yet.
type measurement struct {
	Nodes     []nodeSample
	Pods      []podSample
	Watts     []nodeValue
	Ages      []nodeValue // of a node's samples, in seconds by the clock of the source; a node without one has samples of now
	Throttled []nodeValue // CPU that the pods of a node wanted and did not get, in thousandths of a core
}

// nodeValue is a value of a node.
type nodeValue struct {
	Names []string // the node's names in the source, the best first
	Value float64
}

// nodeSample is a node's use in one dimension, in the dimension's unit.
type nodeSample struct {
	Names     []string // the node's names in the source, the best first
	Dimension cluster.Dimension
	Value     float64
}

// podSample is a pod's use in one dimension, in the dimension's unit.
type podSample struct {
	Namespace, Pod string
	Dimension      cluster.Dimension
	Value          float64
}

// objects knows the objects that samples belong to. It is safe for concurrent use.
type objects interface {
	// Nodes returns the cluster's nodes by every name that a source may use.
	Nodes() map[string]nodeInfo
	// Workload returns the workload of a running pod, as workloadOf does.
	Workload(namespace, pod string) (key string, known bool)
}

// nodeInfo is a node that samples may belong to.
type nodeInfo struct {
	Name        string
	Allocatable cluster.Resources
	Power       *cluster.PowerModel // of its annotation; nil: the default
}
