// Package encode turns a snapshot of the cluster and a pending pod into the graph that a network
// reads. Package feature says what the numbers in the graph are; this package runs its functions and
// computes again only what changed since the last decision. The scheduler and the simulator use the
// same encoder, so a network sees in service what it saw in training.
//
// Encoder makes the graph of any cluster, graph.Graph. GPUNodeEncoder makes the nodes of the GPU
// graph, graph.GPUNode, and GPUClusterEncoder the features of its cluster.
package encode
