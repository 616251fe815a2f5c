package feature

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// GPUNode is the context of the features of a node with GPUs, as it is or as it will be after a
// placement. A unit is Workload.Unit of CPU.
type GPUNode struct {
	State    *cluster.Node // as it is
	Workload *Workload
	MilliCPU int64   // free
	Memory   int64   // free, in bytes
	Units    float64 // of CPU, free
	Whole    float64 // idle devices
	Shared   float64 // devices that are in use and have room left
	Idle     float64 // free part of all devices together, in devices
	Unusable float64 // thousandths of devices that are free but that typical pods cannot use
	Hosts    Hosts
	Slices   []mig.Slices // used memory slices of each device, as in cluster.Node; only in a layout with Partitions

	Unused cluster.DeviceSet // idle devices; only in a layout with Topology
	Taken  cluster.DeviceSet // devices that the placement takes; none for the node as it is
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

	Partitions [mig.Count]float64 // share of each profile in the requests for partitions; see fragmentation.Typical.Partitions
}

// GPUCluster is the context of the features of a cluster with GPUs: sums over the nodes that
// ordinary pods may use.
type GPUCluster struct {
	Workload *Workload

	Devices, Whole    int64 // devices, and idle ones
	Shared            int64 // free thousandths of devices in use
	Idle, Unusable    int64 // free thousandths, and free ones that typical pods cannot use
	CPU, Memory       int64 // free, in thousandths of a core and bytes
	AllCPU, AllMemory int64 // allocatable

	Partitions PartitionCounts // only in a layout with Partitions
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
	c.Partitions.add(&o.Partitions, times)
}

// deviceCount returns the number of devices, at least 1.
func (c *GPUCluster) deviceCount() float64 { return max(float64(c.Devices), 1) }

// wholePart returns the idle fraction of the devices.
func (c *GPUCluster) wholePart() float64 { return float64(c.Whole) / c.deviceCount() }
