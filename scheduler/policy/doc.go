// Package policy defines what a scheduling policy is: given a snapshot of the cluster, a pending
// pod and the nodes that the pod fits on, a policy scores each of these nodes. Simulator,
// evaluation and the kube-scheduler plugin run every policy through the same interface.
//
// The policies themselves are in the packages below: heuristic, linear and neural. Package
// policytest checks that a policy keeps the rules of the interface.
package policy
