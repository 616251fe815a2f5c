// Package server runs upstream's kube-scheduler in this process with our plugin built in:
// it writes the KubeSchedulerConfiguration for the profiles that are asked for, or takes the
// user's own, and keeps a latency histogram a profile beside upstream's metrics.
package server
