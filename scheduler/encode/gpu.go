package encode

import (
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// GPU encodes nodes and their devices for a workload, which decides what an amount means. It is
// not safe for concurrent use.
type GPU struct {
	typical *fragmentation.Typical
	pods    []fragmentation.Pod
	unit    float64 // thousandths of a core that the workload's GPU pods ask for by device, or usualUnit

	// Frequencies of the kinds of typical pods, and what follows from them.
	withoutGPU, share, multi, named, shareSize float64

	rooms [cluster.MaxDevices]int64 // scratch: what is left of each device
}

// usualUnit stands in where no typical pod asks for GPU and CPU: what the pods of the openb trace
// ask for.
const usualUnit = 10_900

// most bounds features that have no bound of their own: beyond it lies what training never shows.
const most = 8

// NewGPU returns an encoder for the workload with the given typical pods; nil for one that is
// not known.
func NewGPU(typical *fragmentation.Typical) *GPU {
	e := &GPU{typical: typical, pods: typical.Pods()}
	var cpu, devices, sizes float64
	for _, p := range e.pods {
		f := p.Frequency
		if len(p.Models) > 0 {
			e.named += f
		}
		if p.Devices == 0 {
			e.withoutGPU += f
			continue
		}
		asked := float64(p.Devices*p.Milli) / cluster.DeviceMilli
		cpu, devices = cpu+f*float64(p.MilliCPU), devices+f*asked
		switch {
		case p.Milli < cluster.DeviceMilli:
			e.share, sizes = e.share+f, sizes+f*asked
		case p.Devices > 1:
			e.multi += f * asked
		}
	}
	if e.unit = quotient(cpu, devices); e.unit < 1 {
		e.unit = usualUnit
	}
	e.shareSize = quotient(sizes, e.share)
	return e
}

// Node encodes the node as it will be once a pod that asks for r runs there on the given
// devices. Zero values stand for the node as it is. It writes to g.
func (e *GPU) Node(g *graph.GPUNode, n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) {
	free := n.Free().Minus(r)
	whole, shared, idle := e.devices(n, r, on)
	count := float64(len(n.GPUs))
	cpu := max(float64(free.MilliCPU), 0) / e.unit
	hosts, hostsShare, hostsCPU, model := e.hosts(n, free.MilliCPU, e.rooms[:len(n.GPUs)])
	g.X = append(g.X[:0],
		float32(min(cpu/8, most)), ratio(max(free.Memory, 0), n.Allocatable.Memory), float32(idle/8), float32(whole/8), float32(shared/8),
		float32(min(cpu/max(idle, 0.05), 4)/4), float32(e.typical.After(n, r, on)/4000),
		float32(min(cpu*2.5, 1)), float32(min(cpu/1.2, 1)),
		float32(hosts), float32(hostsShare), float32(hostsCPU), float32(model),
		float32(count/8), float32(min(quotient(float64(n.Allocatable.MilliCPU)/e.unit, count)/4, most)))
	g.Free = g.Free[:0]
	for i := range n.GPUs {
		g.Free = append(g.Free, float32(e.rooms[i])/cluster.DeviceMilli)
	}
}

// devices sets rooms, and returns how many devices nobody uses, how many are in use with room
// left, and what is idle on all together, in devices.
func (e *GPU) devices(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (whole, shared, idle float64) {
	_, milli := fragmentation.Devices(r)
	for i, used := range n.GPUs {
		if on.Has(i) {
			used += milli
		}
		room := max(cluster.DeviceMilli-used, 0)
		e.rooms[i] = room
		idle += float64(room) / cluster.DeviceMilli
		switch {
		case room == cluster.DeviceMilli:
			whole++
		case room > 0:
			shared++
		}
	}
	return whole, shared, idle
}

// hosts is how many of the typical pods fit on so much CPU and such devices, as a share of
// all, of those that share a device, and of those without GPU; and how many of the GPU pods
// the model may serve. Of a kind that is not typical all fit.
func (e *GPU) hosts(n *cluster.Node, cpu int64, rooms []int64) (all, share, withoutGPU, model float64) {
	for i := range e.pods {
		p := &e.pods[i]
		fits := p.MilliCPU <= cpu
		if p.Devices > 0 {
			if len(p.Models) > 0 && !slices.Contains(p.Models, n.GPUModel) {
				continue
			}
			model += p.Frequency
			fits = fits && enough(rooms, p.Devices, p.Milli)
		}
		switch {
		case !fits:
			continue
		case p.Devices == 0:
			withoutGPU += p.Frequency
		case p.Milli < cluster.DeviceMilli:
			share += p.Frequency
		}
		all += p.Frequency
	}
	return all, part(share, e.share), part(withoutGPU, e.withoutGPU), part(model, 1-e.withoutGPU)
}

// part is how much of a whole there is, all of it where the whole is nothing.
func part(of, whole float64) float64 {
	if whole < 1e-9 {
		return 1
	}
	return of / whole
}

// enough tells whether there are so many devices with so much left.
func enough(rooms []int64, devices, milli int64) bool {
	for _, room := range rooms {
		if room >= milli {
			devices--
		}
	}
	return devices <= 0
}
