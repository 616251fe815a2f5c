package state

import (
	"strings"
	"time"
)

// Frame is the cluster at one moment: plain values, owned by whoever asked for it.
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

// Node is one node and what the pods on it request.
type Node struct {
	Name       string
	Status     string   // as kubectl writes it: Ready, NotReady, Unknown, "Ready,SchedulingDisabled"
	Roles      []string // from the node-role.kubernetes.io/ labels, sorted
	Version    string   // of the kubelet
	Zone       string
	InternalIP string
	Taints     []string // key=value:Effect, sorted
	Created    time.Time
	Ready      bool
	Cordoned   bool // spec.unschedulable
	Worker     bool // carries no control-plane taint, so ordinary pods may land here

	CPU    Usage // millicores
	Memory Usage // bytes
	GPU    Usage // devices (nvidia.com/gpu)
	Pods   Usage // pods; Requested is how many there are
}

// Role is the node's roles in one word; a node without any is a worker where ordinary pods
// may land.
func (n *Node) Role() string {
	switch {
	case len(n.Roles) > 0:
		return strings.Join(n.Roles, ",")
	case n.Worker:
		return "worker"
	}
	return "none"
}

// Usage is what is requested of what can be allocated, both in the unit of its field.
type Usage struct {
	Requested   int64
	Allocatable int64
}

// Fraction is Requested / Allocatable. Over 1 means overcommitted; a node that can
// allocate nothing counts as empty, or as full if something is requested of it.
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

// Totals is the sum over the nodes of a frame.
type Totals struct {
	Nodes    int
	Ready    int
	Cordoned int
	CPU      Usage
	Memory   Usage
	GPU      Usage
	Pods     Usage
}

// Spread describes the CPU fractions of the worker nodes: population statistics, of
// numbers that are 0 for an empty node and 1 for a full one.
type Spread struct {
	Nodes int // how many nodes the figures are over
	Mean  float64
	Std   float64
	Min   float64
	Max   float64
}

// PendingPod is a pod that no scheduler has placed yet, and what its PodScheduled condition
// says about why.
type PendingPod struct {
	Namespace string
	Name      string
	Scheduler string
	Created   time.Time
	Reason    string // Unschedulable, SchedulingGated, …; empty before the first attempt
	Message   string
}

// Scheduler is what one scheduler, by the pods' spec.schedulerName, has done.
type Scheduler struct {
	Name    string
	Bound   int     // pods on nodes now
	Pending int     // pods waiting now
	Rate    float64 // pods bound per second over the last rateWindow
}

// Lost says that the figures are old: the API server has not answered since.
type Lost struct {
	Since  time.Time
	Reason string
}

// HasGPU tells whether any node offers a GPU.
func (f *Frame) HasGPU() bool { return f.Totals.GPU.Allocatable > 0 }
