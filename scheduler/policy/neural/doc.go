// Package neural holds the policies that score with a network: graphPolicy for networks on the cluster
// graph, and GPUPolicy for networks on the graph of GPU nodes. New returns the one for a network. Both keep what they computed from
// one decision to the next, so that a decision costs only what changed.
package neural
