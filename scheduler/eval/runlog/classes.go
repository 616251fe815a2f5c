package runlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/cluster"
)

// mostClasses is the number of different requests up to which each is a class of its own.
const mostClasses = 12

// class is the waits of a class of pods.
type class struct {
	name string
	waits
}

// classes returns the classes of pods, small ones first. If there are too many different requests, pods are
// classed by their GPUs, or without any by their CPUs.
func classes(all map[cluster.Resources]*waits) (out []class) {
	name := classOf
	if len(all) > mostClasses {
		name = coarse
	}
	at := map[string]int{}
	for _, r := range slices.SortedFunc(maps.Keys(all), func(a, b cluster.Resources) int {
		return cmp.Or(cmp.Compare(a.TotalGPUMilli(), b.TotalGPUMilli()), cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.GPU, b.GPU))
	}) {
		i, known := at[name(r)]
		if !known {
			i = len(out)
			at[name(r)] = i
			out = append(out, class{name: name(r)})
		}
		out[i].atOnce += all[r].atOnce
		out[i].never += all[r].never
		out[i].times = append(out[i].times, all[r].times...)
	}
	return out
}

// classOf names requests, as "500m CPU, 1 GiB".
func classOf(r cluster.Resources) string {
	var parts []string
	if r.MilliCPU%1000 == 0 {
		parts = append(parts, fmt.Sprintf("%d CPU", r.MilliCPU/1000))
	} else {
		parts = append(parts, fmt.Sprintf("%dm CPU", r.MilliCPU))
	}
	parts = append(parts, strconv.FormatFloat(float64(r.Memory)/(1<<30), 'g', 3, 64)+" GiB")
	switch {
	case r.GPU > 0:
		parts = append(parts, fmt.Sprintf("%d GPU", r.GPU))
	case r.GPUMilli > 0:
		parts = append(parts, fmt.Sprintf("%dm GPU", r.GPUMilli))
	}
	return strings.Join(parts, ", ")
}

// coarse names a range of requests.
func coarse(r cluster.Resources) string {
	switch gpu := r.TotalGPUMilli(); {
	case gpu >= 2000:
		return "several GPUs"
	case gpu >= 1000:
		return "one GPU"
	case gpu > 0:
		return "a share of a GPU"
	}
	for _, limit := range []int64{1, 4, 16, 64} {
		if r.MilliCPU < 1000*limit {
			return fmt.Sprintf("under %d CPU", limit)
		}
	}
	return "64 CPU or more"
}
