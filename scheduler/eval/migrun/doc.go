// Package migrun compares policies on workloads of MIG partitions.
//
// A Mix says how often pods request each profile. In a fill, pods arrive until they have requested more compute slices than there are;
// a pod that fits nowhere is lost. In a flow, pods come and go, and wait in kube-scheduler's queue. Both know where partitions may lie
// on a GPU (package mig). optimum and relaxed bound what any policy can allocate.
package migrun
