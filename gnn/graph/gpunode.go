package graph

import "gnnsched/gnn/feature"

// GPUNode is one node of the GPU graph: a star of the node and its devices. The pending pod is not
// in the graph. A candidate is the star that the node becomes by the placement.
type GPUNode struct {
	X    []float32 // features, feature.GPUWidths.Node
	Free []float32 // free part of each device, 0 to 1
}

// Knots interpolates a free part (clamped to 0 to 1) between feature.DeviceKnots evenly spaced knots.
// It returns the lower of the two knots around it, and the weight of the upper one, 0 up to 1; the
// lower one has the rest. What fits into a device changes by leaps, so a network has a vector for
// every knot.
func Knots(free float32) (lower int, upper float32) {
	x := min(max(free, 0), 1) * (feature.DeviceKnots - 1)
	lower = min(int(x), feature.DeviceKnots-2)
	return lower, x - float32(lower)
}
