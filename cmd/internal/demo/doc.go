// Package demo shows in about a minute where the networks pay and where they do not. It has two
// parts, each on a simulated cluster of its own: mixed nodes under load, and a pool of GPUs. In each,
// the same pods go through a learned and the default profile of a real kube-scheduler, and the results
// stand side by side with what is typical in the simulator. The first part also explains one decision.
//
// Nodes and pods are those of scenarios of `gnnsched eval`, by the same seeds, so that the reader can
// repeat everything there. The two schedulers take turns (learned, default, default, learned, …), each
// time on an empty cluster, so that neither profits from warmer caches or a less loaded machine.
package demo
