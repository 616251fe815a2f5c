package infer

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/layer"
)

// GPUNetwork is the weights of a network on the GPU graph, ready to multiply. With x the features of
// a node, u those of the cluster, t_d the interpolated vector of device d's free part (see
// graph.Knots), and H the width (biases left out):
//
//	device   m_d = ReLU(D x + T t_d)                 H
//	node     h   = ReLU(N x + M · Σ_d m_d)           2H
//	         φ   = O h                               H
//	cluster  ψ   = O' ReLU(C u)                      H
//	value    v   = φ · ψ
//
// The MLP encoder lacks the devices' messages; the linear encoder is v = n · x. A GPUNetwork is immutable and safe for
// concurrent use. See layer.Nodes.
type GPUNetwork struct {
	arch         checkpoint.Architecture
	fingerprint  uint64
	layout       *feature.Layout
	value, actor *tower // actor is nil without one
}

// tower is the layers of one value: the critic's or the actor's.
type tower struct {
	program
	node, cluster int // the layers whose product is the value; cluster is -1 if the value does not depend on the cluster
}

// NewGPU prepares the weights of a checkpoint on the GPU graph. The error wraps one of package
// checkpoint's: the checkpoint is not valid, or reads any cluster's graph.
func NewGPU(c *checkpoint.Checkpoint) (*GPUNetwork, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a := c.Manifest.Architecture
	if a.Graph != checkpoint.GPUGraph {
		return nil, fmt.Errorf("%w: the network reads any cluster's graph; use infer.New", checkpoint.ErrSchema)
	}
	layout, err := a.Layout()
	if err != nil {
		return nil, err
	}
	n := &GPUNetwork{arch: a, fingerprint: c.Fingerprint(), layout: layout, value: newTower(c, a.Layers())}
	if actor := a.Actor(); actor != nil {
		n.actor = newTower(c, actor)
	}
	return n, nil
}

// Fingerprint returns the checkpoint's fingerprint; see checkpoint.Checkpoint.Fingerprint.
func (n *GPUNetwork) Fingerprint() uint64 { return n.fingerprint }

func newTower(c *checkpoint.Checkpoint, layers []layer.Layer) *tower {
	p := newProgram(c, layers)
	return &tower{program: p, node: p.find(layer.NodeValue), cluster: p.find(layer.ClusterValue)}
}

// width is the length of the vectors whose product is the value.
func (t *tower) width() int { return t.program[t.node].Width }

// Layout returns the features that the network reads.
func (n *GPUNetwork) Layout() *feature.Layout { return n.layout }

// Architecture returns the network's architecture.
func (n *GPUNetwork) Architecture() checkpoint.Architecture { return n.arch }

// Width is the length of embeddings.
func (n *GPUNetwork) Width() int { return n.value.width() }

// GPUSession runs one value of a network. It is not safe for concurrent use; sessions of one network
// run in parallel.
type GPUSession struct {
	*tower
	star    star
	vectors [][]float32 // by layer: of the cluster
}

// Critic returns a session for the value of nodes.
func (n *GPUNetwork) Critic() *GPUSession { return newGPUSession(n.value) }

// Actor returns a session for choosing among placements: the actor's if the network has one, else the
// critic's.
func (n *GPUNetwork) Actor() *GPUSession {
	if n.actor != nil {
		return newGPUSession(n.actor)
	}
	return n.Critic()
}

func newGPUSession(t *tower) *GPUSession {
	return &GPUSession{tower: t, star: newStar(t.program), vectors: make([][]float32, len(t.program))}
}

// Node writes the embedding φ of a node to out, of length Width. φ is zero for a node without
// devices, where nothing can be idle.
func (s *GPUSession) Node(out []float32, g *graph.GPUNode) {
	if len(g.Free) == 0 {
		clear(out)
		return
	}
	s.star.run(surroundings{x: g.X, free: g.Free})
	copy(out, s.star.vectors[s.node])
}

// Cluster writes the embedding ψ of a cluster's features to out, of length Width.
func (s *GPUSession) Cluster(out, x []float32) {
	if s.cluster < 0 {
		out[0] = 1
		return
	}
	for i := range s.program {
		o := &s.program[i]
		if o.Of != layer.Cluster {
			continue
		}
		y := grow(s.vectors[i], o.Width)
		clear(y)
		for t := range o.terms {
			in := x
			if from := o.terms[t].from; len(from) > 0 {
				in = s.vectors[from[0]]
			}
			o.terms[t].add(y, in, 1)
		}
		o.finish(y, 1)
		s.vectors[i] = y
	}
	copy(out, s.vectors[s.cluster])
}

// Dot returns φ · ψ, the value of a node.
func Dot(phi, psi []float32) float32 {
	var a, b, c, d float32
	psi = psi[:len(phi)]
	for len(phi) >= 4 {
		a += phi[0] * psi[0]
		b += phi[1] * psi[1]
		c += phi[2] * psi[2]
		d += phi[3] * psi[3]
		phi, psi = phi[4:], psi[4:]
	}
	for i, v := range phi {
		a += v * psi[i]
	}
	return a + b + c + d
}
