// Package fragmentation says how fragmented the GPUs of a node are: how much of what is idle on them is
// of no use to the pods that usually come. Weng et al., Beware of Fragmentation: Scheduling
// GPU-Sharing Workloads with Fragmentation Gradient Descent, USENIX ATC 2023.
//
// What usually comes are the typical pods of a workload: its commonest shapes with how often
// each comes. For one typical pod that asks for GPU and a node that can host it, the idle
// thousandths on the devices that are too small for it are fragmented; on a node that cannot
// host it (for want of CPU, devices or the model), and for a typical pod that asks for no GPU,
// all that is idle. A node's fragmentation F is the sum of that over the typical pods,
// weighted by how often each comes; it lies between 0 and what is idle.
package fragmentation
