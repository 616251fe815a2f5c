package graph

import "gnnsched/gnn/feature"

// GPUNode is one node of the GPU graph: a star of the node and its devices. The pending pod is not
// in the graph. A candidate is the star that the node becomes by the placement.
type GPUNode struct {
	X    []float32 // features, feature.Widths.Node
	Free []float32 // free part of each device, 0 to 1
}

// Knots interpolates a free part (clamped to 0 to 1) between feature.DeviceKnots evenly spaced knots.
// It returns the index of the knot below, and the weight of the knot above, in [0, 1]; the knot below
// has weight 1 - upper. A network has one vector for each knot, because small changes of the free part
// can change which pods fit.
func Knots(free float32) (lower int, upper float32) {
	x := min(max(free, 0), 1) * (feature.DeviceKnots - 1)
	lower = min(int(x), feature.DeviceKnots-2)
	return lower, x - float32(lower)
}
