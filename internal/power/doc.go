// Package power estimates the power of nodes' CPUs and GPUs, in watts. The model comes from Lettich et al., Power- and Fragmentation-aware
// Online Scheduling for GPU Datacenters, CCGrid 2025 (arXiv 2412.17484):
//
//   - A GPU device draws its rated power if any pod uses it, and its idle power otherwise.
//   - The pods of a node fill one CPU package after another. A package draws its full power if any of
//     its hardware threads is requested, and its idle power otherwise.
//
// Memory, disks and fans do not count, because no choice changes them. [Watts] and [After] compute this model.
//
// [Draw] depends on measured use instead of requests, and on the node's own model of the whole machine, which may
// sleep.
package power
