package cluster

import (
	"slices"
	"sync/atomic"

	"gnnsched/internal/cluster/mig"
)

// Snapshot is the state of a cluster at one decision. The order of its nodes changes between
// decisions only if a node joins or leaves.
type Snapshot struct {
	Nodes []*Node
	Now   float64 // time of the decision in seconds, from any beginning; the age of measured usage is relative to it
	Peers []Peer  // of the pending pod, by ascending row; nil if they are not known
	// Beyond holds the running pods two steps away, by ascending row. The pending pod exchanges data with a workload, that workload with
	// them, and they not with the pod. Rate is the traffic between the pod and the workload, divided among these pods.
	Beyond []Peer
	// Preferred is the number of candidates of the pending pod that preferences leave to a policy; 0 if it is not known.
	Preferred int
	// Demand counts the pods that arrive and wait; nil if nobody counts them.
	Demand *Demand
}

// Feasible appends to rows the indices of the nodes that p fits, in ascending order.
func (s *Snapshot) Feasible(p *Pod, rows []int32) []int32 {
	for i, n := range s.Nodes {
		if n.Fit(p) == Fits {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

// Cache holds one value for each node and for each different request of a pod. The zero value
// is empty and ready to use. It is not safe for concurrent use.
type Cache[V any] struct {
	columns map[Resources][]Entry[V]
}

// Entry is the value of one node, in the state that the node had when the value was computed.
type Entry[V any] struct {
	version Version
	Value   V
}

// maxColumns bounds the memory for workloads in which every pod requests something else.
const maxColumns = 512

// Column returns the entries for pods that request r, one for each row of a snapshot with the
// given number of rows. It may be longer than that. It is valid until the next call.
func (c *Cache[V]) Column(r Resources, rows int) []Entry[V] {
	column := c.columns[r]
	if len(column) >= rows {
		return column
	}
	if c.columns == nil || len(c.columns) >= maxColumns {
		c.columns = map[Resources][]Entry[V]{}
	}
	column = append(column, make([]Entry[V], rows-len(column))...)
	c.columns[r] = column
	return column
}

// Clear drops all values.
func (c *Cache[V]) Clear() { c.columns = nil }

// Valid reports whether the entry holds the value of n in its present state.
func (e *Entry[V]) Valid(n *Node) bool { return n.Unchanged(e.version) }

// Set stores the value of n in its present state.
func (e *Entry[V]) Set(n *Node, v V) { *e = Entry[V]{n.Version, v} }

// Move says where a running pod goes.
type Move struct {
	Pod     int       // its index, for whoever makes the move
	Row     int32     // of the node; negative: to none
	Devices DeviceSet // of that node
	Start   int       // first memory slice of a MIG partition
}

// Version identifies one state of one node: its requests, its devices and all its other fields. Two states in a process never share a
// version, so a cache of values derived from nodes compares versions and nothing else; see Node.Unchanged. The zero Version identifies no
// state.
type Version uint64

var lastVersion atomic.Uint64

// NextVersion returns a version that was never returned before in this process.
func NextVersion() Version { return Version(lastVersion.Add(1)) }

// Unchanged reports whether the node is still in the state with the given version. It is false for
// the zero Version: a node without a version is never taken from a cache.
func (n *Node) Unchanged(since Version) bool { return since != 0 && n.Version == since }

// Group is a number of running pods on one node with equal requests.
type Group struct {
	Each  Resources // requests of one pod
	Count int64     // number of pods
}

// Node is one node and the pods that run on it.
type Node struct {
	Name          string
	Zone          string // label topology.kubernetes.io/zone; may be empty
	Rack          string // part of the zone; may be empty
	Labels        map[string]string
	Taints        []Taint
	Unschedulable bool // cordoned

	// Version identifies the node's state; see Version. Add, AddOn and Remove change it. Code
	// that sets other fields of a node that is in use must set it to NextVersion().
	Version Version
	Usage   *NodeUsage // measured usage; nil without a recent one. Version does not cover it. Each decision reads both

	Allocatable Resources // the node's capacity for pods
	Requested   Resources // sum of the requests of its pods; Pods is their number
	Groups      []Group   // its pods, by equal requests, sorted by ascending Each
	Unrequested Resources // what its pods count with in scores beyond their requests; see Resources.Counted

	GPUModel string  // empty without GPUs, or if the model is unknown
	GPUs     []int64 // used thousandths of each device; nil if devices are not known one by one
	// Slices holds the used memory slices of each device that MIG can partition; all slices of another device are used. It is nil if no device
	// can be partitioned. AddOn and Remove leave it alone.
	Slices []mig.Slices

	Power   *PowerModel // the machine's power; nil: not known
	Traffic *Traffic    // of the whole cluster; nil if it is not known. Version does not cover it
}

// Free returns allocatable minus requested resources. It is negative where the node is
// overcommitted.
func (n *Node) Free() Resources { return n.Allocatable.Minus(n.Requested) }

// Counted returns what the node's pods count with in scores.
func (n *Node) Counted() Resources { return n.Requested.Plus(n.Unrequested) }

// Add adds one running pod with requests r, on the devices that ChooseDevices returns. It returns
// these devices.
func (n *Node) Add(r Resources) DeviceSet {
	on := n.ChooseDevices(r)
	n.AddOn(r, on)
	return on
}

// AddOn adds one running pod with requests r on the given devices: r.GPU devices, or one for a
// share, or none if the node's devices are not known. It does not check whether there is room.
func (n *Node) AddOn(r Resources, on DeviceSet) { n.change(r, on, 1) }

// Remove removes one running pod with requests r from the given devices. It panics if no such pod
// runs on the node.
func (n *Node) Remove(r Resources, on DeviceSet) { n.change(r, on, -1) }

// change adds sign pods (1 or -1) with requests r on the given devices.
func (n *Node) change(r Resources, on DeviceSet, sign int64) {
	r.Pods = 1
	i, found := slices.BinarySearchFunc(n.Groups, r, func(g Group, r Resources) int { return compare(g.Each, r) })
	switch {
	case found:
		n.Groups[i].Count += sign
		if n.Groups[i].Count == 0 {
			n.Groups = slices.Delete(n.Groups, i, i+1)
		}
	case sign < 0:
		panic("cluster: removing a pod from " + n.Name + " that does not run there")
	default:
		n.Groups = slices.Insert(n.Groups, i, Group{Each: r, Count: sign})
	}
	if on != 0 {
		n.useDevices(r, on, sign)
	}
	n.Requested = n.Requested.Plus(r.Times(sign))
	if r.MilliCPU == 0 || r.Memory == 0 {
		n.Unrequested = n.Unrequested.Plus(r.Counted().Minus(r).Times(sign))
	}
	n.Version = NextVersion()
}

// compare orders resources, for the order of Node.Groups.
func compare(a, b Resources) int {
	for _, d := range [...]int64{a.MilliCPU - b.MilliCPU, a.Memory - b.Memory, a.GPU - b.GPU, a.GPUMilli - b.GPUMilli, a.Pods - b.Pods} {
		if d != 0 {
			return int(max(min(d, 1), -1))
		}
	}
	return 0
}

// Pod is a pod that waits for a node.
type Pod struct {
	Name         string
	Namespace    string
	Owner        string            // the pod's workload, such as a ReplicaSet; empty if none or not known
	Requests     Resources         // Pods is 1
	NodeSelector map[string]string // labels that the node must have
	NodeAffinity [][]Requirement   // terms of required node affinity, of which the node must meet one; none: any node
	Tolerations  []Toleration
	GPUModels    []string    // GPU models that the pod accepts; empty: any
	Partition    mig.Profile // of the one MIG partition that the pod requests; Requests has its thousandths of a device, too

	Limits Resources // of CPU and memory; 0 for a resource without one, or if limits are not known
	Usage  *PodUsage // its workload's earlier usage; nil if not known
}

// The default model of a machine: medians of the 628 results of SPECpower_ssj2008 that were published from 2016 to 2026
// (spec.org/power_ssj2008), for each hardware thread.
const (
	fullOfThread = 3.3 // watts at full load
	idleOfFull   = 0.2
)

// MachinePower returns the model of a node without its GPUs: by measured watts, else the node's own, else the default for its CPU. Measured
// watts include GPUs, so they count only on nodes without GPUs.
func MachinePower(n *Node) PowerModel {
	if n.Usage != nil && n.Usage.Power != nil && len(n.GPUs) == 0 {
		return *n.Usage.Power
	}
	if n.Power != nil {
		return *n.Power
	}
	full := fullOfThread * float64(n.Allocatable.MilliCPU) / 1000
	return PowerModel{Idle: idleOfFull * full, Full: full}
}

// CPUDraw returns a node's power in watts while a fraction of its CPU is in use: by its own model (Node.Power) or the default one,
// plus its GPUs as in WattsAfter. A node whose model has sleep sleeps while no pod is on it.
func CPUDraw(n *Node, used float64) float64 {
	m := MachinePower(n)
	if m.Sleep != nil && n.Requested.Pods == 0 {
		return *m.Sleep
	}
	return m.At(used) + gpuWatts(n, Resources{}, 0)
}

// FullPower returns the most that a node can draw, in watts.
func FullPower(n *Node) float64 {
	m := MachinePower(n)
	return m.Full + float64(n.Allocatable.GPU)*gpuOf(n).full
}

// PowerRise returns the additional watts of the node's machine, without GPUs, if one more pod uses milliCPU thousandths of a core. The
// pod wakes a sleeping machine.
func PowerRise(n *Node, milliCPU float64) float64 {
	m, capacity, used := MachinePower(n), max(n.Capacity(UsedCPU), 1), n.Used(UsedCPU).Mean
	before := m.At(used / capacity)
	if m.Sleep != nil && n.Requested.Pods == 0 {
		before = *m.Sleep
	}
	return m.At((used+milliCPU)/capacity) - before
}
