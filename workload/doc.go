// Package workload describes the arrivals at a cluster: the shapes of pods, the Deployments that have them, and the order in which they are
// added and deleted.
//
// Everything is a plain value, without a Kubernetes client. A [Generator] draws a [Plan] from
// a seed: it adds random Deployments until the cluster carries a given load. Equal seeds on
// equal capacity give equal plans, so two schedulers can be compared on the same arrivals, in
// the simulator or on a cluster. A [Trace] is a workload with times, read from a file or made
// from a plan.
//
//	plan, err := workload.Generator{
//		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 1,
//		Target:   workload.Load{CPU: 0.2, Memory: 0.2, Pods: 0.2},
//		Capacity: capacity,
//	}.Plan()
//
// Package trace reads workloads from files and writes plans, package driver applies a plan to
// a cluster, and package cleanup deletes what a run made.
package workload
