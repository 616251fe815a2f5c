package checkpoint

import "gnnsched/gnn/graph"

// ActorPrefix is how the names of the actor's parameters begin in a network on the GPU graph
// with actor and critic; the critic's have no prefix.
const ActorPrefix = "actor."

// gpuParams lists the parameters of a network on the GPU graph: of the value, and of the actor
// where there is one.
func (a Architecture) gpuParams() []Param {
	p := a.towerParams("")
	if a.Head == ActorCritic {
		p = append(p, a.towerParams(ActorPrefix)...)
	}
	return p
}

func (a Architecture) towerParams(prefix string) (p []Param) {
	h, wide := a.Hidden, 2*a.Hidden
	layer := func(name string, out, in int) {
		p = append(p, Param{prefix + name + ".weight", []int{out, in}}, Param{prefix + name + ".bias", []int{out}})
	}
	if a.Encoder == Linear {
		layer("node", 1, graph.GPUNodeDim)
		return p
	}
	layer("node", wide, graph.GPUNodeDim)
	if a.Encoder == GNN {
		layer("device", h, graph.GPUNodeDim)
		p = append(p, Param{prefix + "device.free.weight", []int{h, graph.DeviceKnots}}, Param{prefix + "node.device.weight", []int{wide, h}})
	}
	layer("node.out", h, wide)
	layer("cluster", wide, graph.GPUClusterDim)
	layer("cluster.out", h, wide)
	return p
}
