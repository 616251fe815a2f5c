// Package encode turns a snapshot of the cluster and a pending pod into the graph that a network reads. Package feature defines the
// features of the graph; this package calls its functions, and updates only the features that changed since the last decision. The
// scheduler and the simulator use the same encoder, so a network sees the same features in service as in training.
//
// Encoder makes the graph of any cluster, graph.Graph. Stars makes the nodes of the GPU
// graph, graph.GPUNode, and the features of its cluster.
package encode
