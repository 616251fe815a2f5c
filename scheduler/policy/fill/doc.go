// Package fill places pods where the fewest devices will stay idle. The value of a node is the devices that are idle once pods of the
// workload, in random order, have filled it; the value of a cluster is the sum over its nodes, and a placement costs by how much it raises
// that sum.
package fill
