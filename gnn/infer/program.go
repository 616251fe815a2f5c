package infer

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// program is a list of layers with their weights, ready to run.
type program []op

// op is a layer with its weights.
type op struct {
	checkpoint.Layer
	terms        []term
	normW, normB []float32
}

// term is a term with its weights.
type term struct {
	checkpoint.Term
	dense       // in is 0 for a term without a matrix
	from  []int // places of the layers that it reads; none for features
}

// newProgram returns layers with the weights of a checkpoint that has them.
func newProgram(c *checkpoint.Checkpoint, layers []checkpoint.Layer) program {
	p, place := make(program, len(layers)), map[string]int{}
	for i, l := range layers {
		place[l.Name] = i
		p[i] = op{Layer: l, normW: c.Weights[l.Norm+".weight"].Data, normB: c.Weights[l.Norm+".bias"].Data}
		for _, t := range l.Terms {
			x := term{Term: t}
			if t.Weight != "" {
				w := c.Weights[t.Weight+".weight"]
				x.dense = newDense(w.Data, c.Weights[t.Bias].Data, w.Shape[0], w.Shape[1]) // Data is nil if there is no bias
			}
			for _, name := range t.From {
				x.from = append(x.from, place[name])
			}
			p[i].terms = append(p[i].terms, x)
		}
	}
	return p
}

// find returns the place of a layer; -1 if the program has none of this name.
func (p program) find(name string) int {
	for i := range p {
		if p[i].Name == name {
			return i
		}
	}
	return -1
}

// source returns the kind of vertex whose vectors a term reads; 0 for the features of its own.
func (p program) source(t *term) checkpoint.Kind {
	if len(t.from) == 0 {
		return 0
	}
	return p[t.from[0]].Of
}

// of returns the terms of a layer that read vectors of a kind; its own features for 0.
func (p program) of(o *op, kind checkpoint.Kind) (terms []term) {
	for i := range o.terms {
		if p.source(&o.terms[i]) == kind {
			terms = append(terms, o.terms[i])
		}
	}
	return terms
}

// add adds the term of x to each of the rows of y.
func (t *term) add(y, x []float32, rows int) {
	if t.in > 0 {
		t.addRows(y, x, rows)
		return
	}
	for i, v := range x[:len(y)] {
		y[i] += v
	}
}

// finish normalises and rectifies the rows of a layer's sums, in place.
func (o *op) finish(y []float32, rows int) {
	for r := range rows {
		row := y[r*o.Width : (r+1)*o.Width]
		if o.normW != nil {
			layerNorm(row, row, o.normW, o.normB)
		}
		if o.ReLU {
			relu(row)
		}
	}
}

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

// Network is the weights of a network, ready to multiply. A Session runs one that scores candidates, a NodeSession one on
// checkpoint.GPUGraph. It is immutable and safe for concurrent use.
type Network struct {
	arch        checkpoint.Architecture
	fingerprint uint64
	layout      *feature.Layout
	h           int // H

	critic, actor *tower // only on GPUGraph; the same in a network without an actor

	// The others are for networks that score candidates.
	program
	node      int   // the last layer of nodes, which all others read
	context   []int // layers of the pod, the cluster and the zones
	candidate struct {
		nodes, shared, zones []term // by what they read; shared: the pod or the cluster
	}
	own   dense     // of the candidate's own features
	score []float32 // weights of the score
}

// Layout returns the features that the network reads.
func (n *Network) Layout() *feature.Layout { return n.layout }

// ValuesNodes reports whether the network reads the GPU graph and values its nodes: see NodeSession. Others score candidates: see Session.
func (n *Network) ValuesNodes() bool { return n.critic != nil }

// Head returns how the network was trained, which decides what its scores mean.
func (n *Network) Head() checkpoint.Head { return n.arch.Head }

// Fingerprint returns the checkpoint's fingerprint; see checkpoint.Checkpoint.Fingerprint.
func (n *Network) Fingerprint() uint64 { return n.fingerprint }

// Architecture returns the network's architecture.
func (n *Network) Architecture() checkpoint.Architecture { return n.arch }

// New prepares the weights of a checkpoint that reads one of the given graphs; without any, of one on any graph. The error wraps
// one of package checkpoint's: the checkpoint is not valid, or reads another graph.
func New(c *checkpoint.Checkpoint, of ...checkpoint.Graph) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a := c.Manifest.Architecture
	if len(of) > 0 && !slices.Contains(of, a.Graph) {
		return nil, fmt.Errorf("%w: it is the network %v", checkpoint.ErrSchema, a)
	}
	layout, err := a.Layout()
	if err != nil {
		return nil, err
	}
	n := &Network{arch: a, fingerprint: c.Fingerprint(), layout: layout, h: a.Hidden}
	if a.Stars() {
		n.critic = newTower(c, a.Layers())
		if n.actor = n.critic; a.Actor() != nil {
			n.actor = newTower(c, a.Actor())
		}
		return n, nil
	}
	n.program = newProgram(c, a.Layers())
	n.sort()
	return n, nil
}

// sort finds the layers by when they run: for each changed node, for each decision, and for each candidate.
func (n *Network) sort() {
	score := &n.program[n.find(checkpoint.Score)].terms[0]
	last := score.from[0]
	candidate := &n.program[last]
	for i := range n.program[:last] {
		switch o := &n.program[i]; o.Of {
		case checkpoint.Node:
			n.node = i
		case checkpoint.Pod, checkpoint.Cluster, checkpoint.Zone:
			n.context = append(n.context, i)
		}
	}
	n.candidate.nodes, n.candidate.zones = n.of(candidate, checkpoint.Node), n.of(candidate, checkpoint.Zone)
	n.candidate.shared = append(n.of(candidate, checkpoint.Cluster), n.of(candidate, checkpoint.Pod)...)
	n.own, n.score = n.of(candidate, 0)[0].dense, score.wT
}
