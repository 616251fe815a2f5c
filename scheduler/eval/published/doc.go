// Package published compares policies on the openb trace with published results: the GPU allocation
// of six policies on several workloads (Weng et al., Beware of Fragmentation, USENIX ATC 2023). It
// repeats the published runs in the simulator, shows its figures beside the published ones, and
// tells whether they agree. Other policies can take part and appear in the same tables.
package published
