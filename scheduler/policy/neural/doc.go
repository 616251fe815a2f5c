// Package neural holds the policies that score with a network: kindPolicy for networks on the graph of kinds, GPUPolicy for networks on the
// graph of GPU nodes, and graphPolicy for networks from Python on the cluster graph. New returns the one for a network. The last two keep
// what they computed from one decision to the next, so that a decision costs only what changed.
package neural
