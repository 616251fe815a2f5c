// Package server runs upstream's kube-scheduler in this process with our plugins built in.
//
// Config renders the KubeSchedulerConfiguration for a list of profiles; ReadFile reads a user's own
// file instead. Run starts the scheduler with such a file. Beside upstream's metrics it serves a
// latency histogram for each profile. A process survives outages of its API server (package outage) and
// the loss of its lease.
package server
