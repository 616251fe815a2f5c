package cluster

import (
	"slices"

	"gnnsched/internal/cluster/mig"
)

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

	Topology *Topology // nil: not known

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
