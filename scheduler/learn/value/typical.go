package value

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// TypicalPods returns the typical pods of a family, in which each workload weighs the same.
func TypicalPods(family []Workload) *checkpoint.TypicalPods {
	out := &checkpoint.TypicalPods{}
	var all []fragmentation.Demand
	for _, w := range family {
		out.Family = append(out.Family, w.Name)
		for _, p := range w.Pods {
			all = append(all, fragmentation.Demand{Requests: p.Requests(), Models: p.Models, Count: 1 / float64(len(w.Pods))})
		}
	}
	out.Pods = Listed(fragmentation.NewTypical(all))
	return out
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
