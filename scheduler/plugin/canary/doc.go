// Package canary gives a profile's decider a share of the pods, the canary, and leaves the rest to kube-scheduler's
// default scoring. It compares both groups while they are scheduled, and stops the canary if that does worse.
//
// The group of a pod follows from a hash of its owner or its namespace (group.go), so it needs no memory, and a
// larger share contains a smaller one. compare.go holds what is compared: history.go counts, and exceeds.go has the test. report.go says at
// the end how both fared. lost.go watches for evicted pods, canary.go begins and stops the canary, and lease.go keeps in the cluster that
// it runs or stopped.
package canary
