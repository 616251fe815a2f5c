package autoscale

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Scaler decides which nodes come and go.
type Scaler interface {
	// Step sees the cluster after the scheduler has placed what it could, and returns what to do now. It is called after each change and at
	// the Next of its last plan. It must not change what it sees.
	Step(ctx context.Context, c *Cluster) (Plan, error)
}

// Cluster is the state that a Scaler decides on.
type Cluster struct {
	Now     time.Time
	Nodes   []Node    // by name, with those that boot
	Waiting []*v1.Pod // pods without a node, the longest waiting first
	// Daemons has a pod of each DaemonSet, without a node. It runs on each node that its own constraints allow.
	Daemons []*v1.Pod
	Budgets []*policyv1.PodDisruptionBudget
}

// Node is a machine of the cluster.
type Node struct {
	Object  *v1.Node
	Launch  Launch    // as what it was started; Type is empty if the catalog has no such machine, and Pool if no pool owns it
	Started time.Time // when it was asked for; it costs from then on
	Ready   bool      // whether it takes pods; one that boots does not
	Closed  bool      // whether a plan closed it
	Pods    []*v1.Pod // that run on it, with those of DaemonSets
	Version int64     // greater after each change of what is here
}

// Launch is a machine that is to be started.
type Launch struct {
	Name string // of the node; no other node may ever have had it
	Pool string
	Type string
	Zone string
	Spot bool
}

// Plan lists the actions of a Scaler. They are done in the order of the fields.
type Plan struct {
	Start []Launch
	Close []string // nodes that take no more pods
	Open  []string // closed nodes that take pods again
	// Remove has nodes to drain: they are closed, their pods are evicted as far as disruption budgets allow, the others as soon as they do,
	// and then the machine is given back. Pods of owners that recreate them wait for another node.
	Remove []string
	Next   time.Time // when to look again although nothing changed; zero: not at all
}
