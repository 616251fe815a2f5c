package usage

import (
	"fmt"

	"gnnsched/internal/cluster"
)

// Dimension is one thing that a pod uses.
type Dimension int

// The dimensions.
const (
	CPU        Dimension = iota // cores
	Memory                      // bytes
	NetworkIn                   // bytes per second
	NetworkOut                  // bytes per second
	DiskRead                    // bytes per second
	DiskWrite                   // bytes per second

	Dimensions = 6 // number of dimensions
)

// names are the dimensions' names in JSON and YAML.
var names = [Dimensions]string{"cpu", "memory", "networkIn", "networkOut", "diskRead", "diskWrite"}

// String returns the dimension's name in JSON and YAML, such as networkIn.
func (d Dimension) String() string {
	if d < 0 || d >= Dimensions {
		return fmt.Sprintf("Dimension(%d)", int(d))
	}
	return names[d]
}

// shared reports whether pods share the dimension when they want more of it than their node has. Memory is
// not shared.
func (d Dimension) shared() bool { return d != Memory }

// maxRate is the largest rate of network and disk, in bytes per second.
const maxRate = 1e12

// most is the largest amount that a model or a node may have. A larger one is taken for a wrong unit.
func (d Dimension) most() float64 {
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
