// Package testbed gives a command or a test a simulated cluster of its own, with kube-scheduler
// on it, and takes both down again.
//
// Run starts the cluster, connects to it, starts kube-scheduler in this process and calls a
// function that works with them. Whether that function returns, fails, is interrupted or the
// cluster ends under it: the scheduler is stopped first, then the cluster, and the temporary
// folder is deleted.
//
// The cluster is whatever a Launcher starts: Program runs kwokcluster as a child process, and
// package inprocess runs the cluster in this process, for programs that link an API server.
package testbed
