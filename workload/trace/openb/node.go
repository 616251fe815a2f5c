package openb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
)

// maxPods is the pod limit of each node in the trace's own simulator. It is never reached.
const maxPods = 1001

// Node is a row of a node list.
type Node struct {
	Name      string
	MilliCPU  int64           // thousandths of a core
	MemoryMiB int64           // MiB
	GPUs      int64           // devices
	Model     string          // of the devices; empty if there are none
	Taints    []cluster.Taint `json:",omitempty"` // no list has any; see Taints
}

func (n Node) name() string { return n.Name }

type nodeRow struct {
	Name      string `csv:"sn"`
	CPUMilli  amount `csv:"cpu_milli"`
	MemoryMiB amount `csv:"memory_mib"`
	GPU       amount `csv:"gpu"`
	Model     string `csv:"model"`
}

func (r nodeRow) node() (n Node, column string, err error) {
	switch {
	case r.CPUMilli == 0:
		return n, "cpu_milli", errors.New("is 0; a node must offer CPU")
	case r.MemoryMiB == 0:
		return n, "memory_mib", errors.New("is 0; a node must offer memory")
	case r.GPU > cluster.MaxDevices:
		return n, "gpu", fmt.Errorf("%d is more than the %d devices that a node may have", r.GPU, cluster.MaxDevices)
	case r.GPU > 0 && r.Model == "":
		return n, "model", errors.New("is empty on a node with GPUs")
	}
	if column, err = inRange(r.CPUMilli, r.MemoryMiB); err != nil {
		return n, column, err
	}
	return Node{Name: r.Name, MilliCPU: int64(r.CPUMilli), MemoryMiB: int64(r.MemoryMiB), GPUs: int64(r.GPU), Model: r.Model}, "", nil
}

// inRange returns an error for amounts that are so large that their unit must be wrong.
func inRange(cpu, memory amount) (column string, err error) {
	if cpu > cluster.MaxMilliCPU {
		return "cpu_milli", fmt.Errorf("%d is more than %d thousandths of a core; is it in another unit?", cpu, cluster.MaxMilliCPU)
	}
	if memory > cluster.MaxMemory>>20 {
		return "memory_mib", fmt.Errorf("%d is more than %d MiB; is it in another unit?", memory, cluster.MaxMemory>>20)
	}
	return "", nil
}

// Allocatable returns the resources that the node offers to pods.
func (n Node) Allocatable() cluster.Resources {
	return cluster.Resources{MilliCPU: n.MilliCPU, Memory: n.MemoryMiB << 20, GPU: n.GPUs, Pods: maxPods}
}

// Cluster returns the node without pods, with each of its devices free.
func (n Node) Cluster() *cluster.Node {
	out := &cluster.Node{Name: n.Name, Allocatable: n.Allocatable(), GPUModel: n.Model, Taints: n.Taints, Version: cluster.NextVersion()}
	if n.GPUs > 0 {
		out.GPUs = make([]int64, n.GPUs)
	}
	return out
}

// ClusterNodes returns all nodes without pods, in their order.
func ClusterNodes(nodes []Node) []*cluster.Node {
	out := make([]*cluster.Node, len(nodes))
	for i, n := range nodes {
		out[i] = n.Cluster()
	}
	return out
}

// GPUMilli returns the GPU capacity of all nodes together, in thousandths of a device.
func GPUMilli(nodes []Node) (sum int64) {
	for _, n := range nodes {
		sum += n.GPUs * cluster.DeviceMilli
	}
	return sum
}

// machine is a kind of node.
type machine struct {
	milliCPU, memoryMiB, gpus int64
	model                     string
}

// Sample returns at least count of the nodes, in their order, or all if there are fewer. Each kind of machine (CPU, memory, GPUs and model)
// keeps its share, rounded, and at least one node. The nodes of a kind are taken at even distances in the list.
func Sample(nodes []Node, count int) []Node {
	if count >= len(nodes) {
		return nodes
	}
	all := map[machine]int{}
	for _, n := range nodes {
		all[n.machine()]++
	}
	share := float64(count) / float64(len(nodes))
	for ; ; share *= 1.001 { // rounding down may give too few nodes
		seen, out := map[machine]int{}, []Node(nil)
		for _, n := range nodes {
			m := n.machine()
			want := max(1, int(float64(all[m])*share+0.5))
			if i := seen[m]; (i+1)*want/all[m] > i*want/all[m] {
				out = append(out, n)
			}
			seen[m]++
		}
		if len(out) >= count {
			return out
		}
	}
}

func (n Node) machine() machine { return machine{n.MilliCPU, n.MemoryMiB, n.GPUs, n.Model} }

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
