// Package traffic tells a profile of the scheduler with which running pods the pending pod exchanges data, how far their
// nodes are from its candidates, and how full the links between them are. The simulator plays the same (sim.Traffic).
//
// A Prometheus measures what two workloads send each other, in bytes a second. The pods of both have equal parts of it. Those that wait
// count too, but send nothing yet.
package traffic
