// Package sandbox plays a policy on a small simulated cluster, decision by decision, beside another policy. It is for
// readers who change nodes, pods, weights or the objective and look at what becomes of the decisions.
//
// A run takes little: the number of nodes and decisions and the time are bounded, and a run works half of the time at
// most, so that the scheduler in the same process keeps the rest. Nothing here touches a real cluster or a file.
package sandbox
