package factored

import (
	"math"
	"math/rand/v2"

	"gnnsched/scheduler/cluster"
	"gnnsched/workload/openb"
)

// Workload is a trace's pods.
type Workload struct {
	Name string
	Pods []openb.Pod
}

// within is the spread of single shapes, beyond that of their kind, and missing how likely it is
// that a kind but the sharing one is not there at all.
const (
	within  = 0.3
	missing = 0.1
)

// draw makes another workload out of w: the numbers of pods of each kind (without GPU, sharing,
// with one device, with several), of those that name models and of each shape are multiplied by
// factors drawn from lognormal distributions and rounded at random. There is at least one pod
// with GPUs.
func draw(rng *rand.Rand, w Workload, spread float64) Workload {
	factor := func(sigma float64) float64 { return math.Exp(sigma * rng.NormFloat64()) }
	kinds := [4]float64{factor(spread), factor(spread), factor(spread), factor(spread)}
	for k := range kinds {
		if k != sharing && rng.Float64() < missing {
			kinds[k] = 0
		}
	}
	named := factor(2 * spread)
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
			if len(p.Models) > 0 {
				each *= named
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
		kinds[sharing], kinds[single] = 1, 1 // of a trace without the one or the other
		clear(shapes)
	}
}

// shape is what pods that are alike ask for. Models do not make a shape of their own here.
type shape struct{ cpu, memory, gpus, milli int64 }

func shapeOf(p openb.Pod) shape { return shape{p.MilliCPU, p.MemoryMiB, p.GPUs, p.GPUMilli} }

// The kinds of pods.
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
