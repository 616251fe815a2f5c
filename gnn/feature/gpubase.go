package feature

import "gnnsched/internal/cluster"

// DeviceKnots is the number of knots by which the free part of a device is described, evenly from 0
// to the whole device; see graph.Knots. It is part of the schema of the GPU graph.
const DeviceKnots = 101

// most bounds features that have no natural bound: training never shows more.
const most = 8

// GPUBase is the set that networks on the GPU graph read unless their architecture names others. The
// workload decides what an amount is worth: a unit of CPU is what its GPU pods request with one
// device, on average.
var GPUBase = &Set{
	Name:    "base",
	Doc:     "Devices, CPU and memory that are free, and which typical pods fit.",
	Version: 1,
	Stars:   GPUStars,
	Node: []NodeBlock{
		One("cpu", "free units of CPU / 8, up to 8", func(n *Node) float32 { return float32(min(n.Units/8, most)) }),
		inDomain(Fraction, One("memory", "free / allocatable memory", func(n *Node) float32 {
			return ratio(max(n.FreeMem, 0), n.State.Allocatable.Memory)
		})),
		One("idle", "free thousandths of devices / 8000", func(n *Node) float32 { return float32(n.Idle / 8) }),
		One("whole", "devices that nobody uses / 8", func(n *Node) float32 { return float32(n.Whole / 8) }),
		One("shared", "devices in use with room left / 8", func(n *Node) float32 { return float32(n.Shared / 8) }),
		One("cpu_per", "free units of CPU for each free device, up to 4, / 4", func(n *Node) float32 {
			return float32(min(n.Units/max(n.Idle, 0.05), 4) / 4)
		}),
		One("fragmented", "free thousandths of devices that typical pods cannot use / 4000", func(n *Node) float32 {
			return float32(n.Unusable / 4000)
		}),
		inDomain(Fraction, One("cpu_scarce", "2.5 free units of CPU, up to 1", func(n *Node) float32 {
			return float32(min(n.Units*2.5, 1))
		})),
		inDomain(Fraction, One("cpu_some", "free units of CPU / 1.2, up to 1", func(n *Node) float32 {
			return float32(min(n.Units/1.2, 1))
		})),
		inDomain(Fraction, One("hosts", "share of the typical pods that fit", func(n *Node) float32 { return float32(n.Hosts.All) })),
		inDomain(Fraction, One("hosts_share", "the same among those that share a device", func(n *Node) float32 {
			return float32(n.Hosts.Sharing)
		})),
		inDomain(Fraction, One("hosts_cpu", "the same among those that request no GPU", func(n *Node) float32 {
			return float32(n.Hosts.WithoutGPU)
		})),
		inDomain(Fraction, One("model", "share of the typical GPU pods that the node's GPU model may serve", func(n *Node) float32 {
			return float32(n.Hosts.Model)
		})),
		One("devices", "devices / 8", func(n *Node) float32 { return float32(float64(len(n.State.GPUs)) / 8) }),
		One("cpu_each", "allocatable units of CPU for each device / 4, up to 8", func(n *Node) float32 {
			return float32(min(quotient(float64(n.State.Allocatable.MilliCPU)/n.Workload.Unit, float64(len(n.State.GPUs)))/4, most))
		}),
	},
	Cluster: []ClusterBlock{
		One("whole", "devices that nobody uses / devices", func(c *Candidates) float32 { return float32(c.wholePart()) }),
		One("whole_few", "10 times that, up to 1", func(c *Candidates) float32 { return float32(min(10*c.wholePart(), 1)) }),
		One("whole_fewer", "50 times that, up to 1", func(c *Candidates) float32 { return float32(min(50*c.wholePart(), 1)) }),
		One("shared", "free parts of devices in use / devices, times 10", func(c *Candidates) float32 {
			return float32(float64(c.Shared) / cluster.DeviceMilli / c.deviceCount() * 10)
		}),
		One("cpu", "free / allocatable CPU", func(c *Candidates) float32 { return ratio(c.CPU, c.AllCPU) }),
		One("memory", "free / allocatable memory", func(c *Candidates) float32 { return ratio(c.Memory, c.AllMemory) }),
		One("pods_cpu", "share of the workload's pods that request no GPU", func(c *Candidates) float32 {
			return float32(c.Workload.WithoutGPU)
		}),
		One("pods_share", "share of the workload's pods that share a device", func(c *Candidates) float32 {
			return float32(c.Workload.Sharing)
		}),
		One("pods_multi", "GPUs requested by pods of several / pods, up to 1", func(c *Candidates) float32 {
			return float32(min(c.Workload.Multi, 1))
		}),
		One("pods_model", "share of the workload's pods that name GPU models", func(c *Candidates) float32 {
			return float32(c.Workload.Named)
		}),
		One("share_size", "mean part of a device that sharing pods request", func(c *Candidates) float32 {
			return float32(c.Workload.ShareSize)
		}),
		One("fragmented", "free thousandths that typical pods cannot use / free thousandths and 1000", func(c *Candidates) float32 {
			return float32(float64(c.Unusable) / float64(c.Idle+cluster.DeviceMilli))
		}),
		One("cpu_per_gpu", "a unit of CPU / allocatable CPU for each device", func(c *Candidates) float32 {
			return float32(quotient(c.Workload.Unit*c.deviceCount(), float64(c.AllCPU)))
		}),
	},
}
