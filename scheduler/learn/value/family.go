package value

import (
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/openb"
)

// Workload is a trace's pods.
type Workload struct {
	Name string
	Pods []openb.Pod
}

// within is the spread of single shapes, beyond that of their kind.
const within = 0.3

// draw makes another workload out of w: the numbers of pods of each kind (without GPU, sharing,
// with several devices; those with one are the measure) and of each shape are multiplied by
// factors drawn from lognormal distributions and rounded at random. There is at least one pod
// with GPUs.
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
