// Package live records a running cluster with read-only rights. It lists and watches nodes, pods and what pods refer to,
// and measures usage where the cluster serves metrics.k8s.io.
package live
