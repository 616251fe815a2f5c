// Package fragmentation measures how fragmented the GPUs of a node are: how much of their idle capacity cannot be used by the pods that
// typically arrive. The measure comes from Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent, USENIX ATC 2023.
//
// The typical pods of a workload are its most frequent shapes, each with its frequency. For one
// typical pod and one node, the fragmented capacity is
//
//   - all idle capacity, if the pod requests no GPU, or if the node cannot host it because CPU,
//     devices or the GPU model are missing, or because the pod does not tolerate the node's taints;
//   - otherwise, the idle capacity of the devices that are too small for the pod.
//
// The fragmentation F of a node is the sum over the typical pods, weighted by their frequencies.
// It is measured in thousandths of a device, and lies between 0 and the idle capacity.
package fragmentation
