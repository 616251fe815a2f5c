// Package usage measures the real usage of nodes and workloads, for scheduling decisions.
//
// [Start] begins to ask a source in the background, Prometheus or metrics.k8s.io, and keeps a history of its answers. A [View] attaches the
// usage to the nodes of a decision. Scheduling never waits for a source: a node whose usage is stale, absent or impossible is scored by its
// pods' requests.
package usage
