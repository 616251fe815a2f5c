// Package canary gives a profile's decider a share of the pods, the canary, and leaves the rest to kube-scheduler's
// default scoring. It compares both groups while they are scheduled, and stops the canary if that does worse.
//
// The group of a pod follows from a hash of its owner or its namespace, so it needs no memory, and a larger share contains a smaller one.
// canary.go begins and stops the canary, and watches for evicted pods. compare.go holds what is compared, and says at the end how both
// fared. lease.go counts, and keeps in the cluster that the canary runs or stopped.
package canary
