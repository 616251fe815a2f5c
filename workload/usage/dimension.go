package usage

import "gnnsched/internal/cluster"

// Dimension is one kind of usage of a pod.
type Dimension = cluster.Dimension

// The dimensions.
const (
	CPU        = cluster.UsedCPU    // cores, where package cluster counts thousandths
	Memory     = cluster.UsedMemory // bytes
	NetworkIn  = cluster.NetworkIn  // bytes per second
	NetworkOut = cluster.NetworkOut // bytes per second
	DiskRead   = cluster.DiskRead   // bytes per second
	DiskWrite  = cluster.DiskWrite  // bytes per second

	Dimensions = cluster.Dimensions // number of dimensions
)

// names are the dimensions' names in JSON and YAML.
var names = [Dimensions]string{"cpu", "memory", "networkIn", "networkOut", "diskRead", "diskWrite"}

// shared reports whether pods share a dimension when they want more of it than their node has. Memory is
// not shared.
func shared(d Dimension) bool { return d != Memory }

// maxRate is the largest rate of network and disk, in bytes per second.
const maxRate = 1e12

// most is the largest amount of a dimension in a model or a node. A larger one is rejected as a wrong unit.
func most(d Dimension) float64 {
	switch d {
	case CPU:
		return cluster.MaxMilliCPU / 1000
	case Memory:
		return cluster.MaxMemory
	}
	return maxRate
}

// Amounts holds an amount of each dimension, by Dimension: cores, bytes, and bytes per second.
type Amounts [Dimensions]float64
