// Package demo shows in about a minute where the networks pay and where they do not. It has two parts, each on a simulated cluster of its
// own: mixed nodes under load, and a pool of GPUs. In each, the same pods go through a learned and the default profile of a real
// kube-scheduler, and the results stand beside typical results of the simulator. The first part also explains one decision.
//
// Nodes and pods come from scenarios of `gnnsched eval` with the same seeds, so the reader can repeat everything there. The two schedulers
// take turns (learned, default, default, learned, …), each time on an empty cluster, so that neither profits from warmer caches or a less
// loaded machine.
package demo
