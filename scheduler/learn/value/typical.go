package value

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload/trace/openb"
)

// TypicalPods returns the typical pods of a family, in which each workload weighs the same.
func TypicalPods(family []Workload) *checkpoint.TypicalPods {
	out := &checkpoint.TypicalPods{}
	var lasting []Workload
	for _, w := range family {
		out.Family = append(out.Family, w.Name)
		if openb.CheckLifetimes(w.Pods) == nil {
			lasting = append(lasting, w)
		}
	}
	out.Pods = typicalPods(family, func(openb.Pod) float64 { return 1 })
	out.Running = typicalPods(lasting, openb.Pod.Lifetime)
	return out
}

// typicalPods returns the typical pods of a family whose pods have weights, the most frequent first. Each workload weighs the same.
func typicalPods(family []Workload, weight func(openb.Pod) float64) (out []checkpoint.TypicalPod) {
	var all []fragmentation.Demand
	for _, w := range family {
		sum := 0.0
		for _, p := range w.Pods {
			sum += weight(p)
		}
		for _, p := range w.Pods {
			all = append(all, fragmentation.Demand{Requests: p.Requests(), Models: p.Models, Count: weight(p) / sum})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return Listed(fragmentation.NewTypical(all))
}

// Listed returns typical pods as they lie beside a checkpoint, the most frequent first.
func Listed(typical *fragmentation.Typical) (out []checkpoint.TypicalPod) {
	for _, p := range typical.Pods() {
		t := checkpoint.TypicalPod{MilliCPU: p.MilliCPU, GPU: p.Devices, GPUModels: p.Models, Frequency: p.Frequency}
		if p.Milli < cluster.DeviceMilli {
			t.GPU, t.GPUMilli = 0, p.Milli
		}
		out = append(out, t)
	}
	return out
}
