package replay

import "slices"

// Metric is a figure of the cluster at a time.
type Metric int

// The metrics. Nodes in use have at least one pod that does not belong to the node.
const (
	Waiting   Metric = iota // pods without a node
	Nodes                   // nodes in use
	Imbalance               // standard deviation of the requested fraction of CPU over the nodes
	Watts                   // the nodes' power by their requests (cluster.Watts)
	Price                   // of the nodes in use, an hour
	Cost                    // of the objective
	metrics
)

// Block is a stretch of time of a course.
type Block struct {
	Seconds float64          // recorded seconds
	Sums    [metrics]float64 // metric times seconds
	Pods    float64          // the pods of Course.Pods that began to wait in it
	Waited  float64          // seconds that these waited, whenever
}

// Plus implements blocks.Block.
func (b Block) Plus(o Block) Block {
	b.Seconds, b.Pods, b.Waited = b.Seconds+o.Seconds, b.Pods+o.Pods, b.Waited+o.Waited
	for i := range b.Sums {
		b.Sums[i] += o.Sums[i]
	}
	return b
}

// Mean returns the mean of a metric over the stretch; 0 for one of no length.
func (b Block) Mean(m Metric) float64 {
	if b.Seconds == 0 {
		return 0
	}
	return b.Sums[m] / b.Seconds
}

// Wait returns the mean wait, in seconds, of the pods that began to wait in the stretch; 0 without any.
func (b Block) Wait() float64 {
	if b.Pods == 0 {
		return 0
	}
	return b.Waited / b.Pods
}

// Course holds the events of a cluster: the real ones, or a profile's.
type Course struct {
	// Blocks are stretches of equal length, at the same times in all courses of one source.
	Blocks []Block
	// Waits has the waiting time of each of Pods, in seconds. A pod that never got a node waited until it went or the window ended. Gaps of
	// the recording do not count.
	Waits []float64

	// Pods counts pods pending at any moment of the window, even for zero time: arrivals, pods that waited already, and pods that lost their
	// node. Pods of DaemonSets, static pods, and pods that began to wait in a gap of the recording are left out.
	Pods        int
	Unscheduled int // pods that wait at the end
	NeverRan    int // pods that went before they got a node
	Preempted   int // times that a pod made room for another one
	Fallbacks   int // decisions that upstream's scores made instead of the profile's
	Refused     int // pods that are left out because a plugin failed on them; Notes name some
	Notes       []string
}

// Whole returns the whole time as one block.
func (c Course) Whole() (out Block) {
	for _, b := range c.Blocks {
		out = out.Plus(b)
	}
	return out
}

// WaitQuantile returns the wait that a share q of the pods does not exceed, in seconds; 0 without pods.
func (c Course) WaitQuantile(q float64) float64 {
	if len(c.Waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.Waits))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
