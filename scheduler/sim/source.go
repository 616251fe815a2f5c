package sim

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload"
)

// source says where the nodes and pods of episodes come from: they are drawn, or those of a trace or of an openb trace.
type source interface {
	// nodes returns the nodes of a seed's episode.
	nodes(seed uint64) []*cluster.Node
	// arrivals returns the pods of a seed's episode, which begins with the given nodes.
	arrivals(seed uint64, nodes []*cluster.Node) (arrivalList, error)
	// demand returns what pods request, counted by how often they arrive, and by how long they run; nil if that is not known.
	demand() (arriving, running []fragmentation.Demand)
	// fixed reports whether every seed has the same arrivals.
	fixed() bool
}

// source returns the source of the configuration's nodes and pods, and reads its files.
func (c Config) source() (source, error) {
	switch {
	case c.OpenB != nil:
		return c.OpenB.read()
	case c.Trace != nil:
		return c.readTrace()
	}
	return &drawn{c}, nil
}

// drawn draws nodes, and deployments of the configuration's shapes.
type drawn struct{ Config }

// shapes draws the shapes of an episode and the load of its fill.
func (d *drawn) shapes(seed uint64) ([]workload.Shape, float64) {
	rng := stream(seed, streamWorkload)
	shapes := some(rng, d.ShapeKinds, d.Shapes)
	return shapes, d.Load.draw(rng)
}

func (d *drawn) nodes(seed uint64) []*cluster.Node {
	nodes := d.drawNodes(seed)
	shapes, _ := d.shapes(seed)
	d.drawInitial(seed, nodes, shapes)
	return nodes
}

func (d *drawn) arrivals(seed uint64, nodes []*cluster.Node) (arrivalList, error) {
	shapes, load := d.shapes(seed)
	return d.drawArrivals(seed, nodes, shapes, load)
}

func (d *drawn) demand() (arriving, running []fragmentation.Demand) {
	for _, s := range d.Shapes {
		arriving = append(arriving, demandOf(s, s.Weight))
	}
	return arriving, nil
}

func (*drawn) fixed() bool { return false }

func demandOf(s workload.Shape, count float64) fragmentation.Demand {
	return fragmentation.Demand{Requests: s.Requests, Models: s.GPUModels, Tolerations: s.Tolerations, Count: count}
}
