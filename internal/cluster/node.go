package cluster

import "slices"

// Effect says what a taint does to pods that do not tolerate it.
type Effect string

// The effects that the filters know. NoExecute also keeps new pods off.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect Effect `json:"effect"`
}

// Toleration admits a pod to nodes with matching taints. An empty Key matches every key, an
// empty Effect every effect; Exists ignores the value.
type Toleration struct {
	Key, Value string
	Exists     bool
	Effect     Effect
}

// Tolerates tells whether t admits to a node with taint x.
func (t Toleration) Tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	return t.Exists || (t.Key != "" && t.Value == x.Value)
}

// Group is how many running pods of one shape a node holds. Pods that ask for the same
// amounts are one group, whatever their number.
type Group struct {
	Each  Resources // what one pod of the group asks for
	Count int64
}

// Node is one node and what runs on it.
type Node struct {
	Name          string
	Zone          string // topology.kubernetes.io/zone; may be empty
	Labels        map[string]string
	Taints        []Taint
	Unschedulable bool

	Allocatable Resources
	Requested   Resources // sum over Groups; Pods counts the pods
	Groups      []Group   // sorted by ascending Each, no two alike

	GPUModel string  // empty where there are no GPUs or nobody says which
	GPUs     []int64 // thousandths in use, by device; nil where devices are not known one by one

	// Version identifies the node's state; see Version. Add, AddOn and Remove change it. Code
	// that sets other fields of a node that is in use must set it to NextVersion().
	Version Version
}

// Free is what the node has left.
func (n *Node) Free() Resources { return n.Allocatable.Minus(n.Requested) }

// Add accounts for one more running pod that asks for r, on the devices of ChooseDevices, and
// returns these.
func (n *Node) Add(r Resources) DeviceSet {
	on := n.ChooseDevices(r)
	n.AddOn(r, on)
	return on
}

// AddOn accounts for one more running pod that asks for r, on the given devices: as many as r
// asks for, or one for a share; none where devices are not known.
func (n *Node) AddOn(r Resources, on DeviceSet) { n.change(r, on, 1) }

// Remove accounts for the end of one pod that asked for r and was on the given devices. It
// panics where no such pod runs: the caller's books are wrong.
func (n *Node) Remove(r Resources, on DeviceSet) { n.change(r, on, -1) }

func (n *Node) change(r Resources, on DeviceSet, by int64) {
	r.Pods = 1
	i, found := slices.BinarySearchFunc(n.Groups, r, func(g Group, r Resources) int { return compare(g.Each, r) })
	switch {
	case found:
		n.Groups[i].Count += by
		if n.Groups[i].Count == 0 {
			n.Groups = slices.Delete(n.Groups, i, i+1)
		}
	case by < 0:
		panic("cluster: removing a pod from " + n.Name + " that does not run there")
	default:
		n.Groups = slices.Insert(n.Groups, i, Group{Each: r, Count: by})
	}
	if on != 0 {
		n.use(r, on, by)
	}
	n.Requested = n.Requested.Plus(r.Times(by))
	n.Version = NextVersion()
}

func compare(a, b Resources) int {
	for _, d := range [...]int64{a.MilliCPU - b.MilliCPU, a.Memory - b.Memory, a.GPU - b.GPU, a.GPUMilli - b.GPUMilli, a.Pods - b.Pods} {
		if d != 0 {
			return int(max(min(d, 1), -1))
		}
	}
	return 0
}
