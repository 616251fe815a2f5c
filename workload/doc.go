// Package workload says what arrives at a cluster: pod shapes, the random Deployments drawn
// from them until the cluster carries a given load, and the CSV in which a run is kept and
// from which it can be played again.
//
// All of it is plain values, decided by a seed: the same seed on the same capacity gives the
// same plan, so two schedulers can be compared on the same arrivals, in the simulator or on
// a cluster. Package driver applies a plan to a cluster, package cleanup removes it again.
package workload
