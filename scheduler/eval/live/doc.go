// Package live plays episodes of the simulator on a simulated cluster with the real kube-scheduler, with one scheduler profile after
// another, and compares each with the simulator.
//
// The simulator drives an episode and counts time in arrivals, so no clock decides anything. For each
// arrival a pod is created on the cluster, kube-scheduler binds it, and the simulator's state takes over the node that kube-scheduler
// chose. Pods that leave in the simulator are deleted on the cluster. Both thus have the same pods in the same order, so any difference
// comes from the decisions or the measurement.
//
// `gnnsched eval --live` and `gnnsched demo` are settings of it.
package live
