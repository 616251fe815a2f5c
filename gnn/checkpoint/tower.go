package checkpoint

import "gnnsched/gnn/feature"

// ActorPrefix begins the names of the actor's parameters in a network on the GPU graph with actor and
// critic. The critic's names have no prefix.
const ActorPrefix = "actor."

// gpuParams lists the parameters of a network on the GPU graph: those of the value, and those of the
// actor if there is one.
func (a Architecture) gpuParams() []Param {
	layout, err := a.GPULayout()
	if err != nil {
		panic(err)
	}
	p := a.towerParams("", layout.Widths)
	if a.Head == ActorCritic {
		p = append(p, a.towerParams(ActorPrefix, layout.Widths)...)
	}
	return p
}

// towerParams lists the parameters of one value.
func (a Architecture) towerParams(prefix string, w feature.GPUWidths) (p []Param) {
	h, wide := a.Hidden, 2*a.Hidden
	layer := func(name string, out, in int) {
		p = append(p, Param{prefix + name + ".weight", []int{out, in}}, Param{prefix + name + ".bias", []int{out}})
	}
	if a.Encoder == Linear {
		layer("node", 1, w.Node)
		return p
	}
	layer("node", wide, w.Node)
	if a.Encoder == GNN {
		layer("device", h, w.Node)
		p = append(p, Param{prefix + "device.free.weight", []int{h, feature.DeviceKnots}}, Param{prefix + "node.device.weight", []int{wide, h}})
	}
	layer("node.out", h, wide)
	layer("cluster", wide, w.Cluster)
	layer("cluster.out", h, wide)
	return p
}
