// Package canary gives a profile's decider a share of the pods, the canary, and leaves the rest to kube-scheduler's
// default scoring. It compares both groups while they are scheduled, and stops the canary if that does worse.
//
// The group of a pod follows from a hash of its owner or its namespace (group.go), so it needs no memory, and a
// larger share contains a smaller one. compare.go holds what is compared, lost.go watches for evicted pods, and
// canary.go begins and stops the canary and keeps the stop in the cluster.
package canary
