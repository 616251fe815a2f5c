// Package stock scores nodes as kube-scheduler's own score plugins do, with any weights, strategy and
// resources that a KubeSchedulerConfiguration can give them, as in Kubernetes 1.36 and 1.37.
//
// A [Profile] holds the configuration, and a [Policy] plays it. What the simulator's pods can tell
// apart are NodeResourcesFit, NodeResourcesBalancedAllocation, PodTopologySpread with its default constraints,
// and TaintToleration. The other score plugins give all nodes the same score there; a Profile holds their
// weights so that a file that is read and written again keeps them.
package stock
