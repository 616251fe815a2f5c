// Package neural holds the policies that score with a network: GraphPolicy for networks on the cluster
// graph, and GPUPolicy for networks on the graph of GPU nodes. New returns the one for a network. GPUPolicy also scores without a network,
// by filling the nodes with typical pods: the value of a node is then the devices that stay idle. All keep what they computed from
// one decision to the next, so that a decision costs only what changed.
package neural
