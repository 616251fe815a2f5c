package infer

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// tower is the layers of one value: the critic's or the actor's.
type tower struct {
	program
	node, cluster int // the layers whose product is the value; cluster is -1 if the value does not depend on the cluster
}

func newTower(c *checkpoint.Checkpoint, layers []checkpoint.Layer) *tower {
	p := newProgram(c, layers)
	return &tower{program: p, node: p.find(checkpoint.NodeValue), cluster: p.find(checkpoint.ClusterValue)}
}

// width is the length of the vectors whose product is the value.
func (t *tower) width() int { return t.program[t.node].Width }

// Width is the length of embeddings in a network on checkpoint.GPUGraph.
func (n *Network) Width() int { return n.critic.width() }

// NodeSession runs one value of a network on checkpoint.GPUGraph. It is not safe for concurrent use; sessions of one network
// run in parallel.
type NodeSession struct {
	*tower
	star    star
	vectors [][]float32 // by layer: of the cluster
}

// Critic returns a session for the value of nodes.
func (n *Network) Critic() *NodeSession { return newNodeSession(n.critic) }

// Actor returns a session for choosing among placements: the actor's if the network has one, else the
// critic's.
func (n *Network) Actor() *NodeSession { return newNodeSession(n.actor) }

func newNodeSession(t *tower) *NodeSession {
	return &NodeSession{tower: t, star: newStar(t.program), vectors: make([][]float32, len(t.program))}
}

// Node writes the embedding φ of a node to out, of length Width. φ is zero for a node without
// devices, where nothing can be idle.
func (s *NodeSession) Node(out []float32, g *graph.GPUNode) {
	if len(g.Free) == 0 {
		clear(out)
		return
	}
	s.star.run(surroundings{x: g.X, free: g.Free})
	copy(out, s.star.vectors[s.node])
}

// Cluster writes the embedding ψ of a cluster's features to out, of length Width.
func (s *NodeSession) Cluster(out, x []float32) {
	if s.cluster < 0 {
		out[0] = 1
		return
	}
	for i := range s.program {
		o := &s.program[i]
		if o.Of != checkpoint.Cluster {
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

// Value returns the value of a node in a cluster with the features u.
func (s *NodeSession) Value(g *graph.GPUNode, u []float32) float32 {
	phi, psi := make([]float32, s.width()), make([]float32, s.width())
	s.Node(phi, g)
	s.Cluster(psi, u)
	return Dot(phi, psi)
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
