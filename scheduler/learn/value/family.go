package value

import (
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/openb"
)

// Workload holds the pods of a trace, or pods drawn from one.
type Workload struct {
	Name  string
	Pods  []openb.Pod
	Nodes []openb.Node // those of the trace with taints; nil for those without

	partitions *partitioned // instead of pods, if they request MIG partitions
}

// within is the standard deviation of the logarithms of the factors on single shapes, beyond those on their
// kinds.
const within = 0.3

// draw makes another workload out of w. It multiplies the number of pods of each kind and of each shape
// by factors from lognormal distributions, and rounds at random. The factor on pods with one device
// is 1. At least one pod has GPUs. The result is then mixed further, see mix.
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
			out.Pods = c.mix(rng, out.Pods)
			return out
		}
	}
}

// draw makes another workload out of w, as Config.draw does. In a Taints-th of the workloads the machines of
// some GPU models, up to all, are tainted, and of the pods with GPUs a fifth to all tolerate it, and with them
// the others in half of the workloads. Of Partitions it draws a share.
func (p *player) draw(rng *rand.Rand, w Workload) Workload {
	if p.config.Partitions.draws(rng) {
		return p.config.Partitions.draw(rng)
	}
	w = p.config.draw(rng, w)
	if p.config.Taints == 0 || rng.Float64() >= p.config.Taints {
		return w
	}
	t := openb.Taints{Pools: rng.Float64(), Tolerating: 0.2 + 0.8*rng.Float64(), CPU: rng.Float64() < 0.5}
	if nodes, pods, err := t.Apply(rng, p.nodes, w.Pods); err == nil { // the fractions are in range
		w.Nodes, w.Pods = nodes, pods
	}
	return w
}

// mix changes the pods of a Mixes-th of the workloads: up to 40 % of the pods name models, up to all GPU pods share a
// device, up to four times the pods with several devices and three times those without any.
func (c Config) mix(rng *rand.Rand, pods []openb.Pod) []openb.Pod {
	if c.Mixes == 0 || rng.Float64() >= c.Mixes {
		return pods
	}
	m := openb.Mix{Multiple: 1, WithoutGPU: 1}
	if rng.Float64() < 0.5 {
		m.Named = 0.4 * rng.Float64()
	}
	if rng.Float64() < 0.25 {
		m.Sharing = rng.Float64()
	}
	if rng.Float64() < 0.4 {
		m.Multiple = math.Exp(rng.Float64() * math.Log(4))
	}
	if rng.Float64() < 0.4 {
		m.WithoutGPU = math.Exp(rng.Float64() * math.Log(3))
	}
	mixed, err := m.Apply(rng, pods)
	if err != nil { // no pod has a share to copy
		return pods
	}
	return mixed
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
