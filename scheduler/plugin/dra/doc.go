// Package dra lets a profile's policy choose the devices of pods that ask for GPUs by ResourceClaims
// (Dynamic Resource Allocation), and by extended resources that a DeviceClass serves.
//
// Upstream's plugin filters nodes and allocates devices: selectors, constraints, taints and counters hold as
// ever. Its allocator takes the first devices that satisfy a claim, in the order of the slices. LearnedDevices is
// upstream's plugin under another name. In Reserve, when the node is known, it runs upstream's allocation once
// more on this node alone, with the devices that the policy chose at the front. So PreFilter and Filter cost
// what they cost upstream, and no preference can keep a pod from a node.
//
// Before a pod is bound, PreBind waits until the watch of the claims shows what was written, and gives devices back that another
// scheduler gave away first.
//
// A [Ledger] translates slices and allocations into what policies know: the cards of each node and the used
// thousandths of each. A card is a device that is given out whole or in shares, or one that partitions
// share, which is a set of counters; a partition takes as much of it as of its counters in the mean. An [Ask] does the same for the claims of a pending pod.
//
// A driver's devices are GPUs if the driver's name begins with "gpu.", as those of AMD, Intel and NVIDIA do.
// Devices of other drivers, and devices that several nodes can use, are left to upstream.
package dra
