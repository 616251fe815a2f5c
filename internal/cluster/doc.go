// Package cluster holds the values that scheduling decisions are about: nodes, pods, their
// resources and GPU devices, and a snapshot of a cluster. Node.Fit decides whether a pod fits a
// node.
//
// The values are plain Go: they depend neither on Kubernetes' API nor on a neural network, so the
// simulator and the kube-scheduler plugin share them. Package kube translates between them and
// Kubernetes objects.
//
// CPU is counted in thousandths of a core, memory in bytes, and GPUs in whole devices or in
// thousandths of one device.
package cluster
