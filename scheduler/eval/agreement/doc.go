// Package agreement repeats episodes of the simulator on a test bed with the real kube-scheduler and reports the differences.
//
// The simulator drives the episode and counts time in arrivals. For each arrival a pod is created
// on the cluster, kube-scheduler binds it, and the simulator's state takes over the node that
// kube-scheduler chose. Pods that leave in the simulator are deleted on the cluster. Both thus have
// the same pods in the same order, so any difference comes from the decisions or the measurement.
package agreement
