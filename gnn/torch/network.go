//go:build torch

package torch

import (
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// Network is infer.Network with gradients, over batches. The layers are those of package layer; the
// parity test compares the two.
type Network struct {
	Parameters
	// ValueApart stops the gradient of the value at the layers that only the value has
	// (ValueLayers), so that learning the value does not disturb the scores.
	ValueApart bool

	manifest checkpoint.Manifest
	byName   map[string]*Tensor
}

// ValueLayers begins the names of the parameters that only the value depends on.
const ValueLayers = "value."

// Outputs are the results for a batch.
type Outputs struct {
	Scores *Tensor // [ΣC, 1]: a_i of every candidate
	Value  *Tensor // [B, 1]: V of every graph
}

// Q returns the value of every action, [ΣC, 1], from a dueling network (Wang et al. 2016):
// Q_i = V + a_i - mean a over the graph's candidates.
func (o Outputs) Q(s *Scope, b *graph.Batch) *Tensor {
	of := s.Int64(b.CandidateGraph, len(b.CandidateGraph))
	state := s.Sub(o.Value, segmentMean(s, o.Scores, of, b.CandidateGraph, b.Size))
	return s.Add(o.Scores, s.Rows(state, of))
}

// NewNetwork returns a network with the weights of a checkpoint.
func NewNetwork(c *checkpoint.Checkpoint) (*Network, error) {
	n := &Network{manifest: c.Manifest}
	var err error
	if n.byName, err = n.load(c); err != nil {
		return nil, err
	}
	return n, nil
}

// Checkpoint returns the present weights with the manifest that NewNetwork was given.
func (n *Network) Checkpoint() (*checkpoint.Checkpoint, error) { return n.save(n.manifest) }

// Forward runs a network that scores candidates over a batch in the scope s. Check s.Err before you use the outputs.
func (n *Network) Forward(s *Scope, b *graph.Batch) Outputs {
	vectors := n.run(s, graphs{b}, n.manifest.Architecture.Layers())
	return Outputs{Scores: vectors[checkpoint.Score], Value: vectors[checkpoint.Value]}
}

// Values returns the value v of every node, [n, 1]: the critic's, or the actor's if the network has one and actor is true.
func (n *Network) Values(s *Scope, batch *graph.Batch, actor bool) *Tensor {
	b, layers := graphs{batch}, n.manifest.Architecture.Layers()
	if actor {
		layers = n.manifest.Architecture.Actor()
	}
	vectors := n.run(s, b, layers)
	v := vectors[checkpoint.NodeValue]
	if psi := vectors[checkpoint.ClusterValue]; psi != nil {
		v = s.sumAlong(s.Mul(v, b.lookup(s, checkpoint.Cluster, checkpoint.Node, psi)), 1)
	}
	return b.withDevices(s, v)
}

// pass is a network on its way over a batch.
type pass struct {
	*Network
	s       *Scope
	batch   graphs
	vectors map[string]*Tensor         // by layer; those of kinds without vertices are missing
	kinds   map[string]checkpoint.Kind // by layer
}

// run computes the vectors of all layers, by name.
func (n *Network) run(s *Scope, batch graphs, layers []checkpoint.Layer) map[string]*Tensor {
	p := pass{n, s, batch, map[string]*Tensor{}, map[string]checkpoint.Kind{}}
	for _, l := range layers {
		p.kinds[l.Name] = l.Of
		if batch.count(l.Of) > 0 {
			p.vectors[l.Name] = p.layer(l)
		}
	}
	return p.vectors
}

// layer computes the vectors of a layer. Rows of other kinds, of which there are fewer, are added up before they are looked up.
func (p *pass) layer(l checkpoint.Layer) *Tensor {
	var own, y *Tensor
	others, order := map[checkpoint.Kind]*Tensor{}, []checkpoint.Kind{}
	for _, t := range l.Terms {
		x, at := p.input(l, t)
		if x == nil {
			continue
		}
		if t.Scale != "" {
			x = p.s.Add(x, p.s.Mul(x, p.batch.lookup(p.s, checkpoint.Cluster, l.Of, p.vectors[t.Scale])))
		}
		if p.ValueApart && len(t.From) > 1 && strings.HasPrefix(t.Weight, ValueLayers) {
			x = p.s.Detach(x)
		}
		if x = p.affine(p.s, t, x); at == l.Of {
			own = plus(p.s, own, x)
			continue
		}
		if others[at] == nil {
			order = append(order, at)
		}
		others[at] = plus(p.s, others[at], x)
	}
	for _, at := range order {
		y = plus(p.s, y, p.batch.lookup(p.s, at, l.Of, others[at]))
	}
	y = plus(p.s, y, own)
	if l.Norm != "" {
		y = p.s.layerNorm(y, p.byName[l.Norm+".weight"], p.byName[l.Norm+".bias"], 1e-5)
	}
	if l.ReLU {
		y = p.s.relu(y)
	}
	return y
}

// input returns what a term reads, and of which kind its rows are; nil if there are no such vertices.
func (p *pass) input(l checkpoint.Layer, t checkpoint.Term) (x *Tensor, at checkpoint.Kind) {
	if len(t.From) == 0 {
		if at = t.FeaturesOf(l); at == l.Of {
			return p.batch.features(p.s, at), at
		}
		return p.batch.features(p.s, at), asCluster(at)
	}
	var parts []*Tensor
	for _, name := range t.From {
		if x, at = p.vectors[name], p.kinds[name]; x == nil {
			return nil, at
		}
		if y, collects := p.batch.collect(p.s, at, l.Of, x); collects {
			x, at = y, l.Of
		}
		at = asCluster(at)
		parts = append(parts, x)
	}
	if len(parts) > 1 {
		x = p.s.Concat(1, parts...)
	}
	return x, at
}

// asCluster replaces Pod by Cluster, since both have one row for each graph, and returns other kinds unchanged.
func asCluster(of checkpoint.Kind) checkpoint.Kind {
	if of == checkpoint.Pod {
		return checkpoint.Cluster
	}
	return of
}

// plus returns a + b; the other one if one is nil.
func plus(s *Scope, a, b *Tensor) *Tensor {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return s.Add(a, b)
}

// affine applies a term's matrix and bias.
func (n *Network) affine(s *Scope, t checkpoint.Term, x *Tensor) *Tensor {
	switch {
	case t.Weight == "":
		return x
	case t.Bias == "":
		return s.project(x, n.byName[t.Weight+".weight"])
	}
	return s.Linear(x, n.byName[t.Weight+".weight"], n.byName[t.Bias])
}

// segmentMean returns the mean of the rows of x over each segment; zero for a segment without rows.
func segmentMean(s *Scope, x, segment *Tensor, rows []int64, segments int) *Tensor {
	count := make([]float32, segments)
	for _, r := range rows {
		count[r]++
	}
	return s.Mul(s.segmentSum(x, segment, segments), s.Float32(inverse(count), segments, 1))
}

// inverse replaces each count by 1/count, the factor from a sum to a mean; 1 for a count of zero.
func inverse(count []float32) []float32 {
	for i, c := range count {
		count[i] = 1 / max(c, 1)
	}
	return count
}
