// Package published holds policies against the published figures of the openb trace: the GPU
// allocation of six policies on several workloads (Weng et al., Beware of Fragmentation,
// USENIX ATC 2023). It repeats the published runs in the simulator, puts its own figures
// beside the published ones, and any other policy into the same table.
package published
