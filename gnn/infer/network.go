package infer

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// Network is the weights, ready to multiply. It is immutable and safe for concurrent use.
type Network struct {
	arch        checkpoint.Architecture
	fingerprint uint64
	h           int // H

	node, group, nodeGroup, pod              dense
	clusterX, clusterNode, clusterPod        dense
	zoneNode, zoneCluster                    dense
	candNode, candZone, candCluster, candPod dense
	valueHidden                              dense
	scorer                                   scorer
	normW, normB, valueW                     []float32
	valueB                                   float32
}

// Head is how the network was trained, and so what its scores mean.
func (n *Network) Head() checkpoint.Head { return n.arch.Head }

// Fingerprint is that of the checkpoint that the network was made of.
func (n *Network) Fingerprint() uint64 { return n.fingerprint }

// New prepares the weights of a valid checkpoint.
func New(c *checkpoint.Checkpoint) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Manifest.Architecture.Graph != checkpoint.ClusterGraph {
		return nil, fmt.Errorf("%w: the network reads GPU devices, not any cluster's graph", checkpoint.ErrSchema)
	}
	h := c.Manifest.Architecture.Hidden
	w := func(name string) []float32 { return c.Weights[name].Data }
	mat := func(name string, in int, bias string) dense { return newDense(w(name+".weight"), w(bias), h, in) }
	n := &Network{
		arch: c.Manifest.Architecture, fingerprint: c.Fingerprint(), h: h,
		node: mat("node", graph.NodeDim, "node.bias"), pod: mat("pod", graph.PodDim, "pod.bias"),
		clusterX: mat("cluster.features", graph.ClusterDim, "cluster.bias"),
		candNode: mat("candidate.node", h, ""), candCluster: mat("candidate.cluster", h, ""), candPod: mat("candidate.pod", h, "candidate.bias"),
		valueHidden: mat("value.hidden", 3*h, "value.hidden.bias"),
		normW:       w("norm.weight"), normB: w("norm.bias"),
		scorer: newScorer(w("candidate.features.weight"), w("score.weight"), h, graph.CandidateDim),
		valueW: w("value.out.weight"), valueB: w("value.out.bias")[0],
	}
	if n.messages() {
		n.group, n.nodeGroup = mat("group", graph.GroupDim, "group.bias"), mat("node.group", h, "")
		n.clusterNode, n.clusterPod = mat("cluster.node", h, ""), mat("cluster.pod", h, "")
		n.zoneNode, n.zoneCluster = mat("zone.node", h, ""), mat("zone.cluster", h, "zone.bias")
		n.candZone = mat("candidate.zone", h, "")
	}
	return n, nil
}

// Architecture returns what the network is.
func (n *Network) Architecture() checkpoint.Architecture { return n.arch }

func (n *Network) messages() bool { return n.arch.Encoder == checkpoint.GNN }
