package value

import (
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/openb"
)

// Workload holds the pods of a trace, or pods drawn from one.
type Workload struct {
	Name string
	Pods []openb.Pod
}

// within is the standard deviation of the logarithms of the factors on single shapes, beyond those on their
// kinds.
const within = 0.3

// draw makes another workload out of w. It multiplies the number of pods of each kind and of each shape
// by factors from lognormal distributions, and rounds at random. The factor on pods with one device
// is 1. At least one pod has GPUs.
func (c Config) draw(rng *rand.Rand, w Workload) Workload {
	factor := func(sigma float64) float64 { return math.Exp(sigma * rng.NormFloat64()) }
	kinds := [4]float64{withoutGPU: factor(c.Spread), sharing: factor(c.Spread), single: 1, multiple: factor(c.SpreadMultiple)}
	shapes := map[shape]float64{}
	out := Workload{Name: w.Name}
	for {
		gpus := false
		for _, p := range w.Pods {
			s := shapeOf(p)
			each, known := shapes[s]
			if !known {
				each = kinds[s.kind()] * factor(within)
				shapes[s] = each
			}
			copies := int(each)
			if rng.Float64() < each-float64(copies) {
				copies++
			}
			for range copies {
				out.Pods = append(out.Pods, p)
				gpus = gpus || p.GPUs > 0
			}
		}
		if gpus {
			return out
		}
	}
}

// shape is the request of a pod. Pods that differ only in the GPU models that they accept have the same
// shape.
type shape struct{ cpu, memory, gpus, milli int64 }

func shapeOf(p openb.Pod) shape { return shape{p.MilliCPU, p.MemoryMiB, p.GPUs, p.GPUMilli} }

// The kinds of pods, by the GPUs that they request.
const (
	withoutGPU = iota
	sharing
	single
	multiple
)

func (s shape) kind() int {
	switch {
	case s.gpus == 0:
		return withoutGPU
	case s.milli < cluster.DeviceMilli:
		return sharing
	case s.gpus == 1:
		return single
	}
	return multiple
}
