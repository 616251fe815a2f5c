package feature

import (
	"gnnsched/internal/cluster"
)

// Node is the context of a node's features.
type Node struct {
	State       *cluster.Node
	CPU, Memory float64 // requested / allocatable
	Offered     *Offered

	*GPUNode       // only on the GPU graph
	Kind     *Kind // only on the graph of kinds
}

// Offered holds the allocatable resources of all nodes together.
type Offered struct {
	Sum   cluster.Resources
	Nodes int
}

// Mean returns the mean over the nodes of one amount of Sum.
func (o *Offered) Mean(sum int64) float64 { return float64(sum) / float64(max(o.Nodes, 1)) }

// Group is the context of the features of a group of equal pods that run on a node.
type Group struct {
	Node        *cluster.Node
	Each, Total cluster.Resources // requests of one pod and of all
}

// Pod is the context of the pending pod's features.
type Pod struct {
	State            *cluster.Pod
	CPU, Memory, GPU float64 // request / mean that a node offers
}

// NewPod returns the context for a pending pod, in a cluster that offers so much.
func NewPod(p *cluster.Pod, o *Offered) Pod {
	return Pod{
		State:  p,
		CPU:    quotient(float64(p.Requests.MilliCPU), o.Mean(o.Sum.MilliCPU)),
		Memory: quotient(float64(p.Requests.Memory), o.Mean(o.Sum.Memory)),
		GPU:    quotient(float64(p.Requests.GPU), o.Mean(o.Sum.GPU)),
	}
}

// Candidates is the context of the features of candidates, and of the cluster.
type Candidates struct {
	Pod     *cluster.Pod
	Nodes   []*cluster.Node   // of the snapshot
	Rows    []int32           // of the candidates among Nodes
	Usage   []Usage           // of each of Nodes
	Largest cluster.Resources // the most CPU and memory that one pod requests, running or pending

	*GPUCluster        // only on the GPU graph, where no other field is set
	Kinds       *Kinds // only on the graph of kinds, likewise

	Shares []Share // of each candidate; Measure sets them

	cpu, memory, skew moments // of what the candidates have in use, and of CPU minus memory
	addCPU, addMemory moments // of what the pod would add

	available available // see all
}

// Usage is how much of a node is requested.
type Usage struct {
	CPU, Memory           float32 // requested / allocatable
	MilliCPU, MemoryBytes int64   // allocatable
}

// Share is how much of a candidate is requested, and how much the pod would add.
type Share struct {
	CPU, Memory       float32 // requested / allocatable
	AddCPU, AddMemory float32 // request of the pod / allocatable
}

// Measure computes Shares and their statistics from the other fields.
func (c *Candidates) Measure() {
	c.cpu, c.memory = moments{}, moments{}
	c.addCPU, c.addMemory = moments{}, moments{}
	c.skew, c.available = moments{}, available{}
	c.Shares = c.Shares[:0]
	r := c.Pod.Requests.Counted()
	for _, v := range c.Rows {
		u := &c.Usage[v]
		s := Share{u.CPU, u.Memory, float32(cluster.Fraction(r.MilliCPU, u.MilliCPU)), float32(cluster.Fraction(r.Memory, u.MemoryBytes))}
		c.cpu.Add(float64(s.CPU))
		c.memory.Add(float64(s.Memory))
		c.skew.Add(float64(s.CPU - s.Memory))
		c.addCPU.Add(float64(s.AddCPU))
		c.addMemory.Add(float64(s.AddMemory))
		c.Shares = append(c.Shares, s)
	}
}

// GPUNode holds the inputs of the features of a node on the GPU graph: the node as it is or as it will be after a
// placement. A unit is Workload.Unit of CPU.
type GPUNode struct {
	Workload *Workload
	FreeCPU  int64   // in thousandths of a core
	FreeMem  int64   // in bytes
	Units    float64 // of CPU, free
	Whole    float64 // idle devices
	Shared   float64 // devices that are in use and have room left
	Idle     float64 // free part of all devices together, in devices
	Unusable float64 // thousandths of devices that are free but that typical pods cannot use
	Hosts    Hosts
}

// Hosts is how much of the workload fits on a node. Of a kind of pod that the workload lacks, all
// fit.
type Hosts struct {
	All        float64 // share of the typical pods that fit
	Sharing    float64 // the same among pods that share a device
	WithoutGPU float64 // the same among pods that request no GPU
	Model      float64 // share of the typical GPU pods that the node's GPU model may serve
}

// Workload describes the requests of the typical pods.
type Workload struct {
	Unit       float64 // thousandths of a core that a GPU pod requests with one device, on average
	WithoutGPU float64 // share of the pods that request no GPU
	Sharing    float64 // share of the pods that share a device
	Multi      float64 // GPUs requested by pods of several / pods
	Named      float64 // share of the pods that name GPU models
	ShareSize  float64 // mean part of a device that sharing pods request
}

// GPUCluster holds the inputs of the features of a cluster on the GPU graph: sums over the nodes that
// ordinary pods may use.
type GPUCluster struct {
	Workload *Workload

	Devices, Whole    int64 // devices, and idle ones
	Shared            int64 // free thousandths of devices in use
	Idle, Unusable    int64 // free thousandths, and free ones that typical pods cannot use
	CPU, Memory       int64 // free, in thousandths of a core and bytes
	AllCPU, AllMemory int64 // allocatable
}

// Add adds times the sums of o to those of c.
func (c *GPUCluster) Add(o *GPUCluster, times int64) {
	c.Devices += times * o.Devices
	c.Whole += times * o.Whole
	c.Shared += times * o.Shared
	c.Idle += times * o.Idle
	c.Unusable += times * o.Unusable
	c.CPU += times * o.CPU
	c.Memory += times * o.Memory
	c.AllCPU += times * o.AllCPU
	c.AllMemory += times * o.AllMemory
}

// deviceCount returns the number of devices, at least 1.
func (c *GPUCluster) deviceCount() float64 { return max(float64(c.Devices), 1) }

// wholePart returns the idle fraction of the devices.
func (c *GPUCluster) wholePart() float64 { return float64(c.Whole) / c.deviceCount() }
