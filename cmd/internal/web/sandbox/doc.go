// Package sandbox plays a policy on a small simulated cluster, decision by decision, beside another policy. Readers can change nodes, pods,
// weights or the objective and watch the effect on the decisions.
//
// The number of nodes and decisions and the time of a run are bounded. A run uses at most half of the CPU time, so that the scheduler in
// the same process keeps the rest. Nothing here touches a real cluster or a file.
package sandbox
