package infer

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
)

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
	hidden    op    // of the value
	value     op
	candidate struct {
		nodes, shared, zones, paths []term // by what they read; shared: the pod or the cluster
	}
	path  struct{ nodes, own []term } // of the layer of paths
	own   scorer                      // the candidate's own features, and its score
	part  scorer                      // the same of split graphs
	rule  *term                       // what the features add to the score by themselves; nil for nothing
	trust int                         // layer that scales the score of the rest; -1 for none
	kept  dense                       // of the kept numbers in split graphs; without inputs if there are none
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
	n.trust = n.program[n.find(checkpoint.Score)].terms[0].scale
	if rule := n.of(&n.program[n.find(checkpoint.Score)], 0); len(rule) > 0 {
		n.rule = &rule[0]
	}
	if s := layout.Split; s != nil {
		n.part, n.kept = newScorer(n.own.e.summed(s), n.own.score), n.own.e.rows(s.At, s.Len)
	}
	return n, nil
}

// sort finds the layers by when they run: for each changed node, for each decision, and for each candidate.
func (n *Network) sort() {
	score, value := &n.program[n.find(checkpoint.Score)], &n.program[n.find(checkpoint.Value)]
	last := score.terms[0].from[0]
	candidate := &n.program[last]
	n.value, n.hidden = *value, n.program[value.terms[0].from[0]]
	for i := range n.program[:last] {
		switch o := &n.program[i]; o.Of {
		case checkpoint.Node:
			n.node = i
		case checkpoint.Pod, checkpoint.Cluster, checkpoint.Zone:
			n.context = append(n.context, i)
		case checkpoint.Path:
			n.path.nodes, n.path.own = n.of(o, checkpoint.Node), n.of(o, 0)
		}
	}
	n.candidate.nodes, n.candidate.zones, n.candidate.paths = n.of(candidate, checkpoint.Node), n.of(candidate, checkpoint.Zone),
		n.of(candidate, checkpoint.Path)
	n.candidate.shared = append(n.of(candidate, checkpoint.Cluster), n.of(candidate, checkpoint.Pod)...)
	n.own = newScorer(n.of(candidate, 0)[0].dense, score.terms[0].wT)
}
