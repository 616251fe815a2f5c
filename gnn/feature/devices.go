package feature

import (
	"fmt"
	"slices"

	"gnnsched/internal/cluster"
)

func init() { Register(devices) }

// deviceKnots is the number of knots of the free part of a device in a Star, evenly from 0 to the whole device.
const deviceKnots = 11

// Star is a node and its devices: as it is, and as it is once the pending pod runs there. The zero value stands for a node
// without devices.
type Star struct {
	Before, After []float32 // StarWidth numbers each; nil without devices
	Takes         float32   // devices that typical pods can use no more
	Reserved      float32   // what the placement takes from the reserve for pods that only some nodes can serve, in devices
}

// StarWidth is the number of features of a node with its devices: those of GPUBase, and how many devices are near each knot.
var StarWidth = len(List(GPUBase.Node)) + deviceKnots

// Scatter adds the messages of a node's devices to the last numbers of a star: each device adds to the two knots around its free part.
func Scatter(star, free []float32) {
	out := star[len(star)-deviceKnots:]
	for _, f := range free {
		x := min(max(f, 0), 1) * (deviceKnots - 1)
		k := min(int(x), deviceKnots-2)
		up := x - float32(k)
		out[k] += (1 - up) / most
		out[k+1] += up / most
	}
}

// devices describes nodes with their devices, what a placement takes from the devices, and how even the nodes without
// devices are.
var devices = &Set{
	Name:    "devices",
	Doc:     "Which devices are free, what a placement takes from them, and how even the nodes without devices are.",
	Version: 1,
	Devices: true,
	Node:    []NodeBlock{{Features: starFeatures(""), Fill: func(n *Node, out []float32) { clear(out); copy(out, n.Star) }}},
	Pod: []PodBlock{
		One("devices", "whole devices that the pod requests / 8", func(p *Pod) float32 { return float32(p.State.Requests.GPU) / most }),
		One("share", "part of a device that it requests",
			func(p *Pod) float32 { return float32(p.State.Requests.GPUMilli) / cluster.DeviceMilli }),
		One("wants_devices", "1 if it requests any, else 0", func(p *Pod) float32 { return flag(p.State.Requests.TotalGPUMilli() > 0) }),
	},
	Cluster: []ClusterBlock{
		{Features: renamed(List(GPUBase.Cluster), "gpus_"), Fill: func(c *Candidates, out []float32) { clear(out); copy(out, c.GPUs) }},
		One("ordinary_cpu", "mean over the available nodes without devices of requested / allocatable CPU",
			func(c *Candidates) float32 { return float32(c.ordinaryNodes().cpu.Mean()) }),
		One("ordinary_memory", "the same of memory", func(c *Candidates) float32 { return float32(c.ordinaryNodes().memory.Mean()) }),
		One("ordinary_cpu_std", "10 times the standard deviation over these nodes",
			func(c *Candidates) float32 { return 10 * float32(c.ordinaryNodes().cpu.Std()) }),
		One("ordinary_memory_std", "the same of memory", func(c *Candidates) float32 { return 10 * float32(c.ordinaryNodes().memory.Std()) }),
	},
	Candidate: []CandidateBlock{{Features: ordinaryFeatures[:], Fill: fillOrdinary}, {Features: edgeFeatures(), Fill: fillEdges}},
}

// The first columns of edgeFeatures. The node with its devices after the placement follows, and then by how much less it has of everything.
const (
	takes = iota
	takesMore
	reserved
	afterAt
)

// edgeFeatures describe what a placement does to the devices of a candidate. For one without devices all but takes_more are 0.
func edgeFeatures() []Feature {
	return slices.Concat([]Feature{
		takes:     {Name: "takes", Doc: "devices that typical pods can use no more once the pod is placed, within ±4"},
		takesMore: {Name: "takes_more", Doc: "the same minus the least of the candidates, up to 4", In: Amount},
		reserved:  {Name: "reserved", Doc: "what the placement takes from the reserve, in devices, within ±4"},
	}, starFeatures("after_"), starFeatures(lessPrefix))
}

// renamed returns features with a prefix before their names.
func renamed(features []Feature, prefix string) (out []Feature) {
	for _, f := range features {
		f.Name = prefix + f.Name
		out = append(out, f)
	}
	return out
}

// lessPrefix begins the names of features that say by how much a placement lowers those of a node.
const lessPrefix = "less_"

// starFeatures returns the features of a node with its devices, with a prefix before their names.
func starFeatures(prefix string) []Feature {
	out := renamed(List(GPUBase.Node), prefix+"star_")
	for i := range deviceKnots {
		out = append(out, Feature{Name: fmt.Sprintf("%sfree_%d", prefix, i), Doc: "devices whose free part is near this knot / 8"})
	}
	for i := range out {
		if prefix == lessPrefix {
			out[i].In = Signed
		} else if out[i].In == Signed { // no feature of a node has a minus sign
			out[i].In = Amount
		}
	}
	return out
}

// fillEdges writes the features of every candidate.
func fillEdges(c *Candidates, out Rows) {
	least := float32(0)
	for i := range c.Stars {
		if i == 0 || c.Stars[i].Takes < least {
			least = c.Stars[i].Takes
		}
	}
	for i := range c.Rows {
		row := out.Row(i)
		clear(row)
		if len(c.Stars) == 0 {
			continue
		}
		s := &c.Stars[i]
		row[takes], row[takesMore], row[reserved] = clamp(s.Takes), clamp(s.Takes-least), clamp(s.Reserved)
		less := row[afterAt+copy(row[afterAt:], s.After):]
		for j, x := range s.Before {
			less[j] = most * (x - s.After[j])
		}
	}
}

// The columns of ordinaryFeatures.
const (
	isOrdinary = iota
	even
	evenSkew
	overOrdinary
	offCPU
	offMemory
	evenMost
	ordinaryColumns
)

// ordinaryFeatures describe a candidate beside the available nodes without devices. A candidate with devices leaves these as even as
// they are.
var ordinaryFeatures = [ordinaryColumns]Feature{
	isOrdinary: {Name: "ordinary", Doc: "1 if the candidate has no devices, else 0", In: Flag},
	even: {Name: "even", Doc: "by how much the placement lowers the standard deviations of CPU and of memory over the available " +
		"nodes without devices, times these nodes, within ±4"},
	evenSkew: {Name: "even_skew", Doc: "the same of CPU minus memory"},
	overOrdinary: {Name: "over_ordinary", Doc: "decrease of the squared excess over the mean of these nodes / the standard deviation, " +
		"CPU plus memory, within ±4"},
	offCPU:    {Name: "off_cpu", Doc: "requested / allocatable CPU with the pod, minus the mean of these nodes", In: Difference},
	offMemory: {Name: "off_memory", Doc: "the same of memory", In: Difference},
	evenMost:  {Name: "even_most", Doc: "even minus the most of the candidates without devices, within ±4"},
}

// ordinary holds the statistics of the available nodes without devices.
type ordinary struct {
	known             bool
	cpu, memory, skew moments
}

// hasDevices reports whether a node has devices, also where it has too many to be known one by one or where none can be allocated for now.
func hasDevices(n *cluster.Node) bool { return n.Allocatable.GPU > 0 || len(n.GPUs) > 0 }

// ordinaryNodes returns these statistics. They are computed once for each decision.
func (c *Candidates) ordinaryNodes() *ordinary {
	o := &c.ordinary
	if o.known {
		return o
	}
	*o = ordinary{known: true}
	for i, n := range c.Nodes {
		if !hasDevices(n) && n.Available() {
			u := &c.Usage[i]
			o.cpu.Add(float64(u.CPU))
			o.memory.Add(float64(u.Memory))
			o.skew.Add(float64(u.CPU - u.Memory))
		}
	}
	return o
}

// fillOrdinary writes the features of every candidate.
func fillOrdinary(c *Candidates, out Rows) {
	o := c.ordinaryNodes()
	cpu, memory, skew := o.cpu.rise(1), o.memory.rise(1), o.skew.rise(1)
	cpuOver, memoryOver := o.cpu.excess(), o.memory.excess()
	best, any := float32(-limit), false
	for i, v := range c.Rows {
		s, row := &c.Shares[i], out.Row(i)
		clear(row)
		x, y := s.CPU+s.AddCPU, s.Memory+s.AddMemory
		row[offCPU], row[offMemory] = x-float32(o.cpu.Mean()), y-float32(o.memory.Mean())
		if hasDevices(c.Nodes[v]) {
			continue
		}
		row[isOrdinary] = 1
		row[even] = clamp(-cpu.by(x, s.AddCPU) - memory.by(y, s.AddMemory))
		row[evenSkew] = -skew.by(x-y, s.AddCPU-s.AddMemory)
		row[overOrdinary] = clamp(cpuOver.by(s.CPU, s.AddCPU) + memoryOver.by(s.Memory, s.AddMemory))
		best, any = max(best, row[even]), true
	}
	for i := range c.Rows {
		if row := out.Row(i); any {
			row[evenMost] = clamp(row[even] - best)
		}
	}
}
