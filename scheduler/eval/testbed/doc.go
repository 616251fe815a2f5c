// Package testbed gives a command a cluster of its own: kwokcluster as a child process, and
// kube-scheduler with whatever profiles in this one. Both end with the command.
package testbed
