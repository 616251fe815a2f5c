// Package state holds a cluster for ktop and for the page: nodes, pods, devices, and what schedulers tell.
//
// [Start] follows an API server. A [Source] hands its changes to a [Cluster], which adds up totals and returns them at any moment
// as a [Frame]; rarer questions have [Details]. A change costs the same however large the cluster is: every node has its own running
// sums, and of a pod only a few numbers are kept.
package state

import (
	"strings"
	"time"
)

// Frame is the cluster at one moment, as plain values that the caller owns.
type Frame struct {
	Time         time.Time
	Nodes        []Node // in the natural order of their names (node-2 before node-10)
	Totals       Totals
	CPUSpread    Spread
	Pending      []PendingPod // oldest first; may hold fewer than PendingCount
	PendingCount int
	Schedulers   []Scheduler // by name
	Lost         *Lost       // nil while the API server answers
}

// Node is a node with the sums of its pods' requests.
type Node struct {
	Name       string
	Status     string   // in kubectl's words: Ready, NotReady, Unknown, "Ready,SchedulingDisabled"
	Roles      []string // from the node-role.kubernetes.io/ labels, sorted
	Version    string   // of the kubelet
	Zone       string
	GPUModel   string // empty without GPUs, or if the node does not say it
	InternalIP string
	Taints     []string // key=value:Effect, sorted
	Created    time.Time
	Ready      bool
	Cordoned   bool // spec.unschedulable
	Worker     bool // has no control-plane taint, so that ordinary pods may run here

	CPU    Usage // millicores
	Memory Usage // bytes
	GPU    Usage // thousandths of a device, shares included
	Pods   Usage // pods; Requested is their number

	// Used holds the measured usage of the node, nil without a measurement.
	Used *Measured

	// Devices holds the requested thousandths of each GPU, nil without GPUs. Amounts of pods without device numbers count on idle ones first.
	Devices []int64
}

// Role returns the node's roles, separated by commas. A node without roles is a "worker" if
// ordinary pods may run on it, else "none".
func (n *Node) Role() string {
	switch {
	case len(n.Roles) > 0:
		return strings.Join(n.Roles, ",")
	case n.Worker:
		return "worker"
	}
	return "none"
}

// Usage is a requested and an allocatable amount of one resource.
type Usage struct {
	Requested   int64
	Allocatable int64
}

// Fraction is Requested / Allocatable; over 1 means overcommitted. If nothing is allocatable, it is
// 0, or 1 if something is requested all the same.
func (u Usage) Fraction() float64 {
	switch {
	case u.Allocatable > 0:
		return float64(u.Requested) / float64(u.Allocatable)
	case u.Requested > 0:
		return 1
	}
	return 0
}

func (u Usage) plus(v Usage) Usage {
	return Usage{Requested: u.Requested + v.Requested, Allocatable: u.Allocatable + v.Allocatable}
}

// Totals is the sum over the nodes of a frame. Amounts are sums over the worker nodes only, since ordinary pods cannot use a control plane;
// without any worker, over all nodes.
type Totals struct {
	Nodes    int
	Ready    int
	Cordoned int
	Workers  int // nodes whose amounts are summed up
	CPU      Usage
	Memory   Usage
	GPU      Usage
	Pods     Usage

	// Used is the sum over the nodes that are measured, and Measured their number. Nil if it is 0.
	Used     *Measured
	Measured int
}

// Spread describes how the CPU fractions of the worker nodes differ (0 is an empty node, 1 a full
// one). The statistics are of the population.
type Spread struct {
	Nodes int // number of worker nodes
	Mean  float64
	Std   float64
	Min   float64
	Max   float64
}

// PendingPod is a pod without a node, with the reason from its PodScheduled condition.
type PendingPod struct {
	Namespace string
	Name      string
	Workload  string // its controller, as Kind/name; empty without one
	Scheduler string
	Created   time.Time
	Reason    string // Unschedulable, SchedulingGated, …; empty before the first attempt
	Message   string
	Needs     string // node labels that it selects
}

// Scheduler counts the pods that name one scheduler in spec.schedulerName.
type Scheduler struct {
	Name    string
	Bound   int     // pods on nodes now
	Pending int     // pods waiting now
	Rate    float64 // pods bound per second over the last 10 seconds
}

// Lost describes an outage: the API server has not answered since then, so the figures are old.
type Lost struct {
	Since  time.Time
	Reason string
}

// HasGPU tells whether any node offers a GPU.
func (f *Frame) HasGPU() bool { return f.Totals.GPU.Allocatable > 0 }
