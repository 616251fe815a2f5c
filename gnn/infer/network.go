package infer

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
)

// Network is the weights of a network, ready to multiply. It is immutable and safe for concurrent use.
type Network struct {
	arch        checkpoint.Architecture
	fingerprint uint64
	layout      *feature.Layout
	h           int // H
	known       []checkpoint.Wish
	wishes      feature.Wishes

	node, group, nodeGroup, pod              dense
	clusterX, clusterNode, clusterPod        dense
	zoneNode, zoneCluster                    dense
	candNode, candZone, candCluster, candPod dense
	valueHidden                              dense
	peerNode, peerPath, candPeer             dense // without inputs unless the layout has paths
	scorer                                   scorer
	split                                    scorer // of split graphs
	kept                                     dense  // of the kept numbers in split graphs; without inputs if there are none
	normW, normB, valueW                     []float32
	valueB                                   float32
}

// Layout returns the features that the network reads.
func (n *Network) Layout() *feature.Layout { return n.layout }

// Known returns the terms of the objectives that the network serves; none for a network of one objective.
func (n *Network) Known() []checkpoint.Wish { return n.known }

// Wishes returns the objective that the network serves where no other is given; zero for a network of one objective.
func (n *Network) Wishes() feature.Wishes { return n.wishes }

// Head returns how the network was trained, which decides what its scores mean.
func (n *Network) Head() checkpoint.Head { return n.arch.Head }

// Fingerprint returns the checkpoint's fingerprint; see checkpoint.Checkpoint.Fingerprint.
func (n *Network) Fingerprint() uint64 { return n.fingerprint }

// New prepares the weights of a checkpoint on any cluster's graph, with devices or without. The error wraps one of package
// checkpoint's: the checkpoint is not valid, or reads the GPU graph.
func New(c *checkpoint.Checkpoint) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Manifest.Architecture.Graph == checkpoint.GPUGraph {
		return nil, fmt.Errorf("%w: the network reads nodes with GPU devices; use infer.NewGPU", checkpoint.ErrSchema)
	}
	layout, err := c.Manifest.Architecture.Layout()
	if err != nil {
		return nil, err
	}
	h, widths := c.Manifest.Architecture.Hidden, layout.Widths
	w := func(name string) []float32 { return c.Weights[name].Data }
	mat := func(name string, in int, bias string) dense { return newDense(w(name+".weight"), w(bias), h, in) }
	n := &Network{
		arch: c.Manifest.Architecture, fingerprint: c.Fingerprint(), layout: layout, h: h,
		known: c.Manifest.Wishes, wishes: c.Wishes(),
		node: mat("node", widths.Node, "node.bias"), pod: mat("pod", widths.Pod, "pod.bias"),
		clusterX: mat("cluster.features", widths.Cluster, "cluster.bias"),
		candNode: mat("candidate.node", h, ""), candCluster: mat("candidate.cluster", h, ""), candPod: mat("candidate.pod", h, "candidate.bias"),
		valueHidden: mat("value.hidden", 3*h, "value.hidden.bias"),
		normW:       w("norm.weight"), normB: w("norm.bias"),
		scorer: newScorer(w("candidate.features.weight"), w("score.weight"), h, widths.Candidate),
		valueW: w("value.out.weight"), valueB: w("value.out.bias")[0],
	}
	if s := layout.Split; s != nil {
		e := w("candidate.features.weight")
		n.split, n.kept = newScorer(splitWeights(e, s, h, widths.Candidate), w("score.weight"), h, s.Width()), newDense(columns(e, s.At, s.Len, widths.Candidate), nil, h, s.Len)
	}
	if n.messages() {
		n.group, n.nodeGroup = mat("group", widths.Group, "group.bias"), mat("node.group", h, "")
		n.clusterNode, n.clusterPod = mat("cluster.node", h, ""), mat("cluster.pod", h, "")
		n.zoneNode, n.zoneCluster = mat("zone.node", h, ""), mat("zone.cluster", h, "zone.bias")
		n.candZone = mat("candidate.zone", h, "")
		if widths.Path > 0 {
			n.peerNode, n.peerPath, n.candPeer = mat("peer.node", h, "peer.bias"), mat("peer.path", widths.Path, ""), mat("candidate.peer", h, "")
		}
	}
	return n, nil
}

// Architecture returns the network's architecture.
func (n *Network) Architecture() checkpoint.Architecture { return n.arch }

// paths reports whether messages go from the pending pod over its peers' nodes to its candidates.
func (n *Network) paths() bool { return n.messages() && n.layout.Widths.Path > 0 }

// messages reports whether the encoder passes messages.
func (n *Network) messages() bool { return n.arch.Encoder == checkpoint.GNN }
