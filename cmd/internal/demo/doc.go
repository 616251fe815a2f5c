// Package demo is the product in a minute: it starts a simulated cluster and a scheduler
// process with a learned and the default profile, deploys the same arrivals through one and
// through the other, shows the cluster meanwhile, and ends with both side by side.
//
// The two take turns on one cluster (learned, default, default, learned, …), each round on
// an empty cluster, so that neither has the warmer caches or the less loaded machine.
package demo
