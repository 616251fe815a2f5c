package cluster

import "sync/atomic"

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
