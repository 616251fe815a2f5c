// Package encode turns a snapshot of the cluster and a pending pod into the graph that a
// network reads. The scheduler and the simulator use the same encoder, so that a network
// meets in service what it met in training.
package encode
