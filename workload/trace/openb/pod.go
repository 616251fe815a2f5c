package openb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
)

// NoTime stands for a time that the file does not have.
const NoTime = -1

// Pod is a row of a pod list.
type Pod struct {
	Name      string
	MilliCPU  int64    // thousandths of a core
	MemoryMiB int64    // MiB
	GPUs      int64    // requested devices
	GPUMilli  int64    // requested thousandths of each device; less than 1000 only for one device
	Models    []string // GPU models that the pod accepts, each once; empty means any

	Tolerations []cluster.Toleration `json:",omitempty"` // no list has any; see Taints

	Created, Deleted, Scheduled float64 // seconds from the trace's start, or NoTime
}

func (p Pod) name() string { return p.Name }

type podRow struct {
	Name      string  `csv:"name"`
	CPUMilli  amount  `csv:"cpu_milli"`
	MemoryMiB amount  `csv:"memory_mib"`
	NumGPU    amount  `csv:"num_gpu"`
	GPUMilli  amount  `csv:"gpu_milli"`
	GPUSpec   string  `csv:"gpu_spec,omitempty"`
	Created   seconds `csv:"creation_time,omitempty"`
	Deleted   seconds `csv:"deletion_time,omitempty"`
	Scheduled seconds `csv:"scheduled_time,omitempty"`
}

func (r podRow) pod() (p Pod, column string, err error) {
	if column, err = inRange(r.CPUMilli, r.MemoryMiB); err != nil {
		return p, column, err
	}
	switch {
	case r.NumGPU > cluster.MaxDevices:
		return p, "num_gpu", fmt.Errorf("%d is more than the %d devices that a node may have", r.NumGPU, cluster.MaxDevices)
	case r.NumGPU == 0 && r.GPUMilli != 0:
		return p, "gpu_milli", fmt.Errorf("%d with a num_gpu of 0; write 0 here or 1 there", r.GPUMilli)
	case r.NumGPU == 1 && (r.GPUMilli < 1 || r.GPUMilli > cluster.DeviceMilli):
		return p, "gpu_milli", fmt.Errorf("%d is not 1 to %d thousandths of the GPU", r.GPUMilli, cluster.DeviceMilli)
	case r.NumGPU > 1 && r.GPUMilli != cluster.DeviceMilli:
		return p, "gpu_milli", fmt.Errorf("%d with a num_gpu of %d; only a pod with one GPU can share it, other pods have %d",
			r.GPUMilli, r.NumGPU, cluster.DeviceMilli)
	case r.Created.given && r.Deleted.given && r.Deleted.value < r.Created.value:
		return p, "deletion_time", fmt.Errorf("%v is before the creation_time %v", r.Deleted.value, r.Created.value)
	}
	p = Pod{
		Name: r.Name, MilliCPU: int64(r.CPUMilli), MemoryMiB: int64(r.MemoryMiB), GPUs: int64(r.NumGPU), GPUMilli: int64(r.GPUMilli),
		Created: r.Created.or(NoTime), Deleted: r.Deleted.or(NoTime), Scheduled: r.Scheduled.or(NoTime),
	}
	p.Models, err = models(r.GPUSpec)
	return p, "gpu_spec", err
}

// models splits a list such as V100M16|V100M32 and drops repeated models.
func models(spec string) (out []string, err error) {
	if spec == "" {
		return nil, nil
	}
	for m := range strings.SplitSeq(spec, "|") {
		m = strings.TrimSpace(m)
		if m == "" {
			return nil, errors.New("has an empty model between two |")
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// Requests returns the pod's resource requests: whole GPUs, or a share of one.
func (p Pod) Requests() cluster.Resources {
	r := cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.MemoryMiB << 20, Pods: 1}
	if p.GPUs == 1 && p.GPUMilli < cluster.DeviceMilli {
		r.GPUMilli = p.GPUMilli
	} else {
		r.GPU = p.GPUs
	}
	return r
}

// Shape returns the pod's shape.
func (p Pod) Shape() workload.Shape {
	return workload.Shape{Weight: 1, Requests: p.Requests(), GPUModels: p.Models, Tolerations: p.Tolerations}
}
