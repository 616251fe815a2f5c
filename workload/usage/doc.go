// Package usage holds models of the usage of pods over time, as opposed to their requests: CPU, memory, network and disk.
//
// A [Model] has a [Curve] for each [Dimension]: a constant, a curve over the day, bursts, a random walk or a
// measured series. [Model.At] is a pure function of a seed and the time, so the simulator and the simulated
// cluster see the same values without keeping any. Pods carry their model as JSON in the annotation
// [Annotation]; shapes files hold the same fields in YAML.
//
// [Share] divides a node's capacity among pods that want more.
//
// CPU is in cores, memory in bytes, network and disk in bytes per second. Times are in seconds.
package usage
