package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A GPU graph is what a policy for GPU clusters looks at: every node is a star of itself and
// its devices, and the cluster is one vertex that all nodes are part of. The pending pod is in
// the edges: a candidate is the star that a node becomes by the placement.

// The features of a node with GPUs and of the cluster, by name and in order. What pods ask for
// is measured by the workload at hand: a unit of CPU is what its GPU pods ask for with one
// device, on average.
var (
	GPUNodeFeatures = []string{
		"cpu",                      // free units over 8
		"memory",                   // free / allocatable
		"idle",                     // idle milli over 8,000
		"whole",                    // devices that nobody uses, over 8
		"shared",                   // devices in use with room left, over 8
		"cpu_per",                  // free units by idle device, up to 4, over 4
		"fragmented",               // idle milli that typical pods cannot use, over 4,000
		"cpu_scarce",               // free units times 2.5, up to 1
		"cpu_some",                 // free units over 1.2, up to 1
		"hosts",                    // share of the typical pods that fit
		"hosts_share", "hosts_cpu", // the same among those that share a device, and that ask for none
		"model",    // share of the typical GPU pods that the node's model may serve
		"devices",  // number, over 8
		"cpu_each", // units that the node offers by device, over 4
	}
	GPUClusterFeatures = []string{
		"whole",                    // devices that nobody uses / devices
		"whole_few", "whole_fewer", // 10 and 50 times that, up to 1
		"shared",        // idle share of devices in use / devices, times 10
		"cpu", "memory", // free / allocatable
		"pods_cpu", "pods_share", // share of the workload's pods that ask for no GPU, and for a part of one
		"pods_multi",  // GPUs asked for by pods of several / pods, up to 1
		"pods_model",  // share of the pods that name models
		"share_size",  // mean part of a device that sharing pods ask for
		"fragmented",  // fragmented / idle milli and one device
		"cpu_per_gpu", // a unit / CPU that the cluster has by device
	}
)

// The lengths of the feature vectors.
var (
	GPUNodeDim    = len(GPUNodeFeatures)
	GPUClusterDim = len(GPUClusterFeatures)
)

// DeviceKnots is how many knots the free part of a device is described by, evenly from 0 to
// all of it: a part between two knots counts for both, the more the nearer (linear
// interpolation). What fits into a device changes by leaps, so the network has a vector for
// every knot.
const DeviceKnots = 101

// GPUNode is one node and its devices.
type GPUNode struct {
	X    []float32 // GPUNodeDim
	Free []float32 // of each device, 0 to 1
}

// GPUSchemaVersion changes when a feature of the GPU graph keeps its name and changes its meaning.
const GPUSchemaVersion = 1

// GPUSchemaHash is SchemaHash of the GPU graph.
func GPUSchemaHash() string {
	h := sha256.New()
	h.Write([]byte{GPUSchemaVersion, DeviceKnots})
	for _, f := range [][]string{GPUNodeFeatures, GPUClusterFeatures} {
		h.Write([]byte(strings.Join(f, ",") + ";"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Knots returns the lower knot of a free part (clamped to 0 to 1) and how much the next one
// counts, 0 up to 1.
func Knots(free float32) (lower int, next float32) {
	x := min(max(free, 0), 1) * (DeviceKnots - 1)
	lower = min(int(x), DeviceKnots-2)
	return lower, x - float32(lower)
}
