package testbed

import (
	"context"
)

// Launcher starts simulated clusters.
type Launcher interface {
	// Launch returns when the nodes are Ready. The cluster keeps its files in folder and, if it is a process of its own, its output in the
	// file log. When ctx ends before the nodes are Ready, Launch stops the cluster and returns an error; later, only Stop stops it.
	Launch(ctx context.Context, nodes Nodes, folder, log string) (Cluster, error)
}

// Cluster is a running cluster.
type Cluster interface {
	// Kubeconfig returns the path of the cluster's kubeconfig.
	Kubeconfig() string
	// Done is closed when the cluster has ended.
	Done() <-chan struct{}
	// Err returns why the cluster ended without Stop. It is valid once Done is closed.
	Err() error
	// Stop stops the cluster and waits until it has ended.
	Stop() error
}

// Nodes describes the nodes of a cluster. Give Pools, Record, or List and Count, or Count alone.
type Nodes struct {
	Count int    // nodes of kwokcluster's default size, besides a control-plane node
	Pools []byte // node pools in the YAML of `kwokcluster up --pools`
	// Record is the absolute path of a record whose nodes the cluster has, those at its end or those at the time in RECORD@TIME.
	Record string
	List   string // absolute path of an openb node list; the cluster has Count of its machines
	GPUs   string // how the machines of List offer their GPUs, as kwokcluster's --gpus; default: capacity
}
