package feature

import "gnnsched/internal/cluster"

// Node is the context of a node's features.
type Node struct {
	State       *cluster.Node
	CPU, Memory float64 // requested / allocatable
	Offered     *Offered
	Star        []float32 // the node with its devices, StarWidth numbers; nil without devices or in a layout that does not read them
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
	// LargestRunning is the most CPU and memory that one pod on an available node requests.
	LargestRunning cluster.Resources
	Now            float64        // time of the decision in seconds, as cluster.Snapshot.Now
	Peers          []cluster.Peer // of the pending pod, as cluster.Snapshot.Peers
	Wishes         Wishes         // the objective
	Stars          []Star         // of each candidate; none in a layout that does not read devices
	GPUs           []float32      // features of the cluster in GPUBase; none in such a layout

	Shares []Share // of each candidate; Measure sets them

	cpu, memory, skew moments // of what the candidates have in use, and of CPU minus memory
	addCPU, addMemory moments // of what the pod would add

	available available // see all
	measured  used      // see used
	racks     racks     // see rackRoom
	joining   cluster.Joining
	ordinary  ordinary // see ordinaryNodes
}

// Path is the context of the features of the way from a candidate to a node with peers of the pending pod.
type Path struct {
	Network         *cluster.Network
	Candidate, Peer int32 // rows
	PeerRoom        Room  // of the peer's rack
	Beyond          bool  // the peer is two steps away (cluster.Snapshot.Beyond)
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
	c.measured.known, c.racks.known, c.ordinary.known = false, false, false
	c.Shares = c.Shares[:0]
	r := c.Pod.Requests
	for _, v := range c.Rows {
		u := &c.Usage[v]
		s := Share{u.CPU, u.Memory, ratio(r.MilliCPU, u.MilliCPU), ratio(r.Memory, u.MemoryBytes)}
		c.cpu.Add(float64(s.CPU))
		c.memory.Add(float64(s.Memory))
		c.skew.Add(float64(s.CPU - s.Memory))
		c.addCPU.Add(float64(s.AddCPU))
		c.addMemory.Add(float64(s.AddMemory))
		c.Shares = append(c.Shares, s)
	}
}
