package encode

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// starCache encodes nodes with their devices for a network that reads the set devices. It caches the encoding of a node until the node
// changes.
// A nil value does nothing.
type starCache struct {
	typical *fragmentation.Typical
	nodes   *Stars
	asIs    cluster.Cache[star] // nodes without the pending pod: a single column
	placed  cluster.Cache[star] // nodes with a pod, by the pod's request
	g       graph.GPUNode
}

// star is a node with its devices, at present or with one more pod.
type star struct {
	x    []float32
	lost float64 // thousandths of devices that typical pods cannot use
	held Held
}

// Know makes the encoder see nodes for a workload with the given typical pods, in a layout that reads devices.
func (e *Encoder) Know(typical *fragmentation.Typical) {
	if !e.layout.Devices {
		return
	}
	e.stars = &starCache{typical: typical, nodes: NewStars(feature.DefaultGPU(), typical)}
	e.Forget()
}

// Devices returns the devices of a node for a pod: for a share of one, the device on which the pod leaves the fewest devices that
// typical pods cannot use. Without an encoder, the node chooses.
func (e *Encoder) Devices(n *cluster.Node, r cluster.Resources) cluster.DeviceSet {
	if e == nil {
		return n.ChooseDevices(r)
	}
	return e.stars.devices(n, r)
}

// devices is Encoder.Devices.
func (s *starCache) devices(n *cluster.Node, r cluster.Resources) (on cluster.DeviceSet) {
	if s == nil || r.GPUMilli == 0 || !n.HasDevices() {
		return n.ChooseDevices(r)
	}
	least := 0.0
	for rest := n.DistinctDevices(r.GPUMilli); rest != 0; rest &= rest - 1 {
		device := rest.First()
		if x := s.typical.After(n, r, device); on == 0 || x < least {
			least, on = x, device
		}
	}
	return on
}

// of returns the present features of the node of a row; nil for a node without devices.
func (s *starCache) of(row int, n *cluster.Node) []float32 {
	if s == nil || len(n.GPUs) == 0 {
		return nil
	}
	return s.kept(&s.asIs.Column(cluster.Resources{}, row+1)[row], n, cluster.Resources{}).x
}

// kept returns an entry's value for a node and a pod that requests r, or for the present node if r is zero. It computes the value again if
// the node has changed.
func (s *starCache) kept(e *cluster.Entry[star], n *cluster.Node, r cluster.Resources) *star {
	if !e.Valid(n) {
		e.Set(n, s.made(n, r))
	}
	return &e.Value
}

// made returns a node with one more pod that requests r, or the present node if r is zero.
func (s *starCache) made(n *cluster.Node, r cluster.Resources) (out star) {
	var on cluster.DeviceSet
	if r != (cluster.Resources{}) {
		on = s.devices(n, r)
	}
	s.nodes.Node(&s.g, n, r, on)
	out.x = make([]float32, feature.StarWidth)
	copy(out.x, s.g.X)
	feature.Scatter(out.x, s.g.Free)
	out.lost, out.held = s.nodes.node.Unusable, s.nodes.Held()
	return out
}

// look sets the stars of the candidates.
func (s *starCache) look(c *feature.Candidates) {
	if s == nil {
		return
	}
	c.GPUs = s.nodes.Features(c.Nodes)
	reserve := s.nodes.Reserve()
	before, after := s.asIs.Column(cluster.Resources{}, len(c.Nodes)), s.placed.Column(c.Pod.Requests, len(c.Nodes))
	c.Stars = resize(c.Stars, len(c.Rows))
	for i, row := range c.Rows {
		n := c.Nodes[row]
		if len(n.GPUs) == 0 {
			c.Stars[i] = feature.Star{}
			continue
		}
		x, y := s.kept(&before[row], n, cluster.Resources{}), s.kept(&after[row], n, c.Pod.Requests)
		c.Stars[i] = feature.Star{
			Before: x.x, After: y.x, Takes: float32((y.lost - x.lost) / cluster.DeviceMilli),
			Reserved: float32(reserve.Worth(&x.held) - reserve.Worth(&y.held)),
		}
	}
}
