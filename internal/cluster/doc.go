// Package cluster holds plain values for what a scheduler decides about: resources, nodes,
// pods and the snapshot of a cluster, with the rules by which a pod fits a node. Nothing in
// it knows Kubernetes' API or a neural network, so the simulator and the kube-scheduler
// plugin share it.
package cluster
