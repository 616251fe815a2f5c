package encode

import (
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// Stars encodes nodes and their devices, and the cluster of such nodes, for a workload, which determines the unit of each amount. Of the
// cluster it keeps sums over the nodes and looks again only at nodes that changed. It is not safe for concurrent use.
type Stars struct {
	layout   *feature.Layout
	typical  *fragmentation.Typical
	pods     []fragmentation.Pod
	workload feature.Workload
	coming   coming

	node   feature.Node              // context of the features
	access fragmentation.Access      // of the node
	rooms  [cluster.MaxDevices]int64 // scratch: free thousandths of each device

	rows    []starRow
	sums    feature.GPUCluster
	context feature.Candidates             // of the cluster's features: the sums
	slots   [maxComing]int64               // sums of the nodes' slots
	idle    map[string]int64               // free thousandths of devices, by GPU model
	open    map[fragmentation.Access]int64 // the same, by access
	reserve Reserve
	x       []float32 // features of the cluster
}

// usualUnit is the unit of CPU, in thousandths of a core, if no typical pod requests both GPU and CPU: the openb trace's request.
const usualUnit = 10_900

// NewStars returns an encoder of the features in a layout, for the workload with the given typical
// pods, which are nil if the workload is not known.
func NewStars(layout *feature.Layout, typical *fragmentation.Typical) *Stars {
	e := &Stars{
		layout: layout, typical: typical, pods: typical.Pods(), idle: map[string]int64{}, open: map[fragmentation.Access]int64{},
		reserve: Reserve{models: map[string]float64{}, pools: map[fragmentation.Access]float64{}},
	}
	e.workload = workloadOf(e.pods)
	e.coming = comingOf(typical.Shapes())
	e.node.GPUNode = &feature.GPUNode{}
	e.sums.Workload, e.context.GPUCluster = &e.workload, &e.sums
	return e
}

func workloadOf(pods []fragmentation.Pod) (w feature.Workload) {
	var cpu, devices, sizes float64
	for _, p := range pods {
		f := p.Frequency
		if len(p.Models) > 0 {
			w.Named += f
		}
		if p.Devices == 0 {
			w.WithoutGPU += f
			continue
		}
		asked := float64(p.Devices*p.Milli) / cluster.DeviceMilli
		cpu, devices = cpu+f*float64(p.MilliCPU), devices+f*asked
		switch {
		case p.Milli < cluster.DeviceMilli:
			w.Sharing, sizes = w.Sharing+f, sizes+f*asked
		case p.Devices > 1:
			w.Multi += f * asked
		}
	}
	if devices > 0 {
		w.Unit = cpu / devices
	}
	if w.Unit < 1 {
		w.Unit = usualUnit
	}
	if w.Sharing > 0 {
		w.ShareSize = sizes / w.Sharing
	}
	return w
}

// Node encodes the node with one more pod that requests r and runs on the given devices, or the present node if r and on are zero. It
// writes to g.
func (e *Stars) Node(g *graph.GPUNode, n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) {
	free := n.Free().Minus(r)
	e.access = e.Access(n)
	e.node.State = n
	c := e.node.GPUNode
	*c = feature.GPUNode{Workload: &e.workload, FreeCPU: free.MilliCPU, FreeMem: free.Memory}
	c.Units = max(float64(free.MilliCPU), 0) / e.workload.Unit
	c.Whole, c.Shared, c.Idle = e.devices(n, r, on)
	c.Unusable = e.typical.After(n, r, on)
	c.Hosts = e.hosts(n, free.MilliCPU)
	g.X = feature.Fill(e.layout.Node, &e.node, resize(g.X, e.layout.Widths.Node))
	g.Free = g.Free[:0]
	for i := range n.GPUs {
		g.Free = append(g.Free, float32(e.rooms[i])/cluster.DeviceMilli)
	}
}

// Vertex returns what Node writes.
func (e *Stars) Vertex(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (g graph.GPUNode) {
	e.Node(&g, n, r, on)
	return g
}

// Access returns which pods may go to the node for its taints.
func (e *Stars) Access(n *cluster.Node) fragmentation.Access { return e.typical.Access(n) }

// Open reports whether pods with GPUs of the workload may use the node.
func (e *Stars) Open(n *cluster.Node) bool { return e.typical.Open(n) }

// devices sets rooms. It returns the number of idle devices, the number of partly used devices, and the free part of all devices together,
// in devices.
func (e *Stars) devices(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (whole, shared, idle float64) {
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

// hosts returns how many of the typical pods fit on n with milliCPU free and the devices' rooms. Pods with GPUs must tolerate its taints.
// Of the others only the size counts, because they measure the remaining CPU.
func (e *Stars) hosts(n *cluster.Node, milliCPU int64) feature.Hosts {
	var all, sharing, withoutGPU, model float64
	rooms := e.rooms[:len(n.GPUs)]
	for i := range e.pods {
		p, f := &e.pods[i], e.pods[i].Frequency
		fits := p.MilliCPU <= milliCPU
		if p.Devices > 0 {
			if len(p.Models) > 0 && !slices.Contains(p.Models, n.GPUModel) {
				continue
			}
			f = p.On(e.access)
			model += f
			fits = fits && enough(rooms, p.Devices, p.Milli)
		}
		switch {
		case !fits:
			continue
		case p.Devices == 0:
			withoutGPU += f
		case p.Milli < cluster.DeviceMilli:
			sharing += f
		}
		all += f
	}
	w := &e.workload
	return feature.Hosts{
		All: all, Sharing: part(sharing, w.Sharing), WithoutGPU: part(withoutGPU, w.WithoutGPU), Model: part(model, 1-w.WithoutGPU),
	}
}

// part returns of / whole, or 1 if whole is nothing.
func part(of, whole float64) float64 {
	if whole < 1e-9 {
		return 1
	}
	return of / whole
}

// enough reports whether that many devices have milli thousandths of room each.
func enough(rooms []int64, devices, milli int64) bool {
	for _, room := range rooms {
		if room >= milli {
			devices--
		}
	}
	return devices <= 0
}
