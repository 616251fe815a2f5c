// Package testbed gives a command or a test a simulated cluster of its own, with kube-scheduler
// on it, and takes both down again.
//
// Run starts the cluster, connects to it, starts kube-scheduler in this process and calls a
// function that works with them. When that function returns, Run stops the scheduler, then the
// cluster, and deletes the temporary folder. An interrupt and the end of the cluster or the
// scheduler end the function's context.
//
// A Launcher starts the cluster. Program runs kwokcluster as a child
// process. Package inprocess runs the cluster in this process, for benchmarks and tests that link an API server.
package testbed
