// Package demo shows the project in a minute. It starts a simulated cluster and a scheduler
// process with a learned and the default profile, deploys the same workloads through both,
// shows the cluster meanwhile, and prints both results side by side.
//
// The two schedulers take turns (learned, default, default, learned, …), each time on an empty
// cluster, so that neither profits from warmer caches or a less loaded machine.
package demo
