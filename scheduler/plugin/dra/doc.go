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
// share, which is a set of counters; a partition takes as much of it as of its counters in the mean. An [Ask] does the same for the claims
// of a pending pod.
//
// A driver's devices are GPUs if the driver's name begins with "gpu.", as those of AMD, Intel and NVIDIA do.
// Devices of other drivers, and devices that several nodes can use, are left to upstream. So are nodes with more
// than 64 cards, and the pods of pod groups.
//
// # What a policy sees of a slice
//
//   - A device without counters is a card. So is a set of shared counters with the partitions that consume it. A partition takes the
//     mean of its shares of the counters, without those that are 0 for the whole card, rounded down.
//   - Memory slices among the counters, and the attribute "profile" of partitions, make a card MIG (package mig).
//   - A device for several claims (consumable capacity) is a card; a claim takes as much as of its scarcest capacity, after the rounding of
//     the request policy. A partition for several claims is a part of its card. The first claim takes the counters.
//   - productName, else model, is the GPU model of a node without a label. Two models on a node are none.
//   - pcieRoot, numaNode and partitionN say where a card is. Other attributes are for selectors only.
//   - Compatibility groups, fractions in request policies, partition types, node allocatable resources and skipped node operations are
//     for upstream's allocator only. If a group forbids the chosen card, the pod gets another.
//
// # What a policy sees of a claim
//
//   - Requests for whole devices, in one claim or several, are as many GPUs. One request for a share or a partition is a share of one
//     GPU, and for MIG also its profile. Several shares or partitions are the whole GPUs that they take together.
//   - Of alternatives (firstAvailable) it sees the first for which a node has enough free devices: all nodes show the same one. When
//     devices are chosen, only the pod's node counts.
//   - nvidia.com/gpu, on nodes that do not offer it and with a class that serves it, is as many GPUs.
//   - allocationMode All is nothing, since there is no choice. A card with room but no device for the pod counts as full.
//
// # Devices near each other
//
// To policies, all idle cards of a node are equal. A pod with several whole devices of one driver, pool and model takes cards of as few
// groups as possible: by partitionN for N devices (NVLink; NVIDIA's driver publishes it for vfio devices only), then NUMA node, then PCIe
// root. Of equally good groups it takes the one with the fewest idle cards, then the cards that the policy chose. Constraints
// (matchAttribute) on all requests come first and never fail because of this. With distinctAttribute, or constraints on some of the
// requests, the policy's choice stays.
//
// # Counting
//
// While a claim is bound, upstream's manager adds its shares up twice, in its cache and in flight. LearnedDevices counts each once, by its
// ID. On a node whose allocatable has nvidia.com/gpu, and whose GPUs are also in slices, card i in the order of the names is GPU i of the
// annotations. If a write of an allocation has no answer, the devices are kept until the API server says what it has.
package dra
