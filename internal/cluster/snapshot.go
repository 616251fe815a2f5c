package cluster

import "sync/atomic"

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
