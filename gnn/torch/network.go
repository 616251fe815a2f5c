//go:build torch

package torch

import (
	"fmt"
	"math"
	"slices"

	"github.com/sugarme/gotch/libtch"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// Network is an infer.Network on a graph of stars with gradients, over batches. The parity test compares the two.
type Network struct {
	Parameters
	manifest checkpoint.Manifest
	byName   map[string]*Tensor
}

// networkOf returns a network with the weights of a checkpoint.
func networkOf(c *checkpoint.Checkpoint) (*Network, error) {
	if a := c.Manifest.Architecture; !a.Stars() {
		return nil, fmt.Errorf("torch: the network %v is not on a graph of stars", a)
	}
	n := &Network{manifest: c.Manifest}
	var err error
	if n.byName, err = n.load(c); err != nil {
		return nil, err
	}
	return n, nil
}

// Checkpoint returns the present weights with the manifest that networkOf was given.
func (n *Network) Checkpoint() (*checkpoint.Checkpoint, error) { return n.save(n.manifest) }

// Values returns the value v of every node, [n, 1]: the critic's, or the actor's if the network has one and actor is true.
func (n *Network) Values(s *Scope, batch *graph.Batch, actor bool) *Tensor {
	b, layers := graphs{batch}, n.manifest.Architecture.Layers()
	if actor {
		layers = n.manifest.Architecture.Actor()
	}
	vectors, kinds := map[string]*Tensor{}, map[string]checkpoint.Kind{}
	for _, l := range layers {
		if kinds[l.Name] = l.Of; b.count(l.Of) > 0 {
			vectors[l.Name] = n.layer(s, b, l, vectors, kinds)
		}
	}
	v := vectors[checkpoint.NodeValue]
	if psi := vectors[checkpoint.ClusterValue]; psi != nil {
		v = s.sumAlong(s.Mul(v, b.rows(s, checkpoint.Cluster, checkpoint.Node, psi)), 1)
	}
	return b.withDevices(s, v)
}

// layer computes the vectors of a layer from those of earlier ones, by name, and their kinds. Vectors of kinds without vertices are
// missing. A term multiplies its matrix before the rows become those of the layer's kind if there are fewer of them then.
func (n *Network) layer(s *Scope, b graphs, l checkpoint.Layer, vectors map[string]*Tensor, kinds map[string]checkpoint.Kind) (y *Tensor) {
	for _, t := range l.Terms {
		if len(t.From) == 0 {
			y = plus(s, y, n.affine(s, t, b.features(s, l.Of)))
			continue
		}
		from := kinds[t.From[0]]
		x := vectors[t.From[0]]
		switch {
		case x == nil:
		case from == checkpoint.Device:
			y = plus(s, y, n.affine(s, t, b.rows(s, from, l.Of, x)))
		default:
			y = plus(s, y, b.rows(s, from, l.Of, n.affine(s, t, x)))
		}
	}
	if l.ReLU {
		y = s.relu(y)
	}
	return y
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

// load registers the parameters of a checkpoint, with its weights, and returns them by name.
func (p *Parameters) load(c *checkpoint.Checkpoint) (map[string]*Tensor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	byName := map[string]*Tensor{}
	var arrays []Array
	for _, x := range c.Manifest.Architecture.Params() {
		byName[x.Name] = p.constant(x.Name, 0, x.Shape...)
		arrays = append(arrays, Array{Name: x.Name, Shape: x.Shape, Data: c.Weights[x.Name].Data})
	}
	if err := p.Import(arrays); err != nil {
		p.Drop()
		return nil, err
	}
	return byName, nil
}

// save returns the present weights.
func (p *Parameters) save(m checkpoint.Manifest) (*checkpoint.Checkpoint, error) {
	arrays, err := p.Export()
	if err != nil {
		return nil, err
	}
	c := &checkpoint.Checkpoint{Manifest: m, Weights: map[string]checkpoint.Tensor{}}
	for _, a := range arrays {
		c.Weights[a.Name] = checkpoint.Tensor{Shape: a.Shape, Data: a.Data}
	}
	return c, nil
}

// Parameters is the ordered set of a network's trainable tensors, in the order in which the network
// registered them with constant. Err returns the first error of registering. It is not safe for
// concurrent use.
type Parameters struct {
	names   []string
	tensors []*Tensor
	err     error
}

// Array is a parameter's values outside libtorch, as a checkpoint stores them. Data is row-major and
// fills Shape.
type Array struct {
	Name  string
	Shape []int
	Data  []float32
}

// Err returns the first error of registering a parameter.
func (p *Parameters) Err() error { return p.err }

// constant registers a parameter whose elements all start at value.
func (p *Parameters) constant(name string, value float64, shape ...int) *Tensor {
	return p.register(name, shape, func() float32 { return float32(value) })
}

func (p *Parameters) register(name string, shape []int, value func() float32) *Tensor {
	if p.err != nil {
		return nil
	}
	if slices.Contains(p.names, name) {
		p.err = fmt.Errorf("torch: two parameters are called %q", name)
		return nil
	}
	if _, err := dims(shape); err != nil {
		p.err = fmt.Errorf("parameter %s: %w", name, err)
		return nil
	}
	data := make([]float32, size(shape))
	for i := range data {
		data[i] = value()
	}
	t, err := fromFloat32(data, shape)
	if err != nil {
		p.err = fmt.Errorf("parameter %s: %w", name, err)
		return nil
	}
	// Marking the tensor returns a second handle of it.
	same, err := result("require gradient", func(out *libtch.Ctensor) { libtch.AtgRequiresGrad_(out, t.c, 1) })
	if err != nil {
		t.Drop()
		p.err = fmt.Errorf("parameter %s: %w", name, err)
		return nil
	}
	same.Drop()
	p.names, p.tensors = append(p.names, name), append(p.tensors, t)
	return t
}

// Drop frees every parameter and its gradient.
func (p *Parameters) Drop() {
	for _, t := range p.tensors {
		t.Drop()
	}
	p.names, p.tensors = nil, nil
}

// Export copies the parameters out, in order.
func (p *Parameters) Export() ([]Array, error) {
	if p.err != nil {
		return nil, p.err
	}
	out := make([]Array, len(p.tensors))
	for i, t := range p.tensors {
		data, err := t.float32s()
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.names[i], err)
		}
		out[i] = Array{Name: p.names[i], Shape: t.Shape(), Data: data}
	}
	return out, nil
}

// Import sets every parameter to the array of its name. The order does not matter. A missing or
// unknown name, another shape, or a number that is not finite is an error, and then no parameter
// changes.
func (p *Parameters) Import(arrays []Array) error {
	if p.err != nil {
		return p.err
	}
	byName := make(map[string]Array, len(arrays))
	for _, a := range arrays {
		if !slices.Contains(p.names, a.Name) {
			return fmt.Errorf("torch: import: the network has no parameter %q", a.Name)
		}
		if _, twice := byName[a.Name]; twice {
			return fmt.Errorf("torch: import: %q is given twice", a.Name)
		}
		byName[a.Name] = a
	}
	for i, t := range p.tensors {
		if err := fits(byName, p.names[i], t.Shape()); err != nil {
			return err
		}
	}
	var s Scope
	defer s.Drop()
	return p.overwrite(&s, func(i int) *Tensor {
		a := byName[p.names[i]]
		return s.Float32(a.Data, a.Shape...)
	})
}

// fits checks the array for one parameter.
func fits(arrays map[string]Array, name string, shape []int) error {
	a, ok := arrays[name]
	switch {
	case !ok:
		return fmt.Errorf("torch: import: no array for the parameter %q", name)
	case !slices.Equal(a.Shape, shape):
		return fmt.Errorf("torch: import: %q has the shape %v, the network wants %v", name, a.Shape, shape)
	case len(a.Data) != size(shape):
		return fmt.Errorf("torch: import: %q has %d numbers, its shape %v wants %d", name, len(a.Data), shape, size(shape))
	}
	for i, v := range a.Data {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("torch: import: number %d of %q is %v", i, name, v)
		}
	}
	return nil
}

// Blend moves every parameter by the share tau, 0 to 1, of the way to that of a network of the same
// architecture. A target network follows the learning one slowly like this.
func (p *Parameters) Blend(source *Parameters, tau float64) error {
	if err := p.matches(source); err != nil {
		return err
	}
	if !(tau >= 0 && tau <= 1) {
		return fmt.Errorf("torch: blend: tau is %v, want 0 to 1", tau)
	}
	var s Scope
	defer s.Drop()
	noGrad(func() {
		for i, t := range p.tensors {
			from := source.tensors[i]
			s.op("blend", func(out *libtch.Ctensor) {
				withScalar(tau, func(c libtch.Cscalar) { libtch.AtgLerp_(out, t.c, from.c, c) })
			}, t, from)
		}
	})
	return s.Err()
}

// matches returns an error unless both sets have the same names and shapes.
func (p *Parameters) matches(source *Parameters) error {
	if p.err != nil {
		return p.err
	}
	if source.err != nil {
		return source.err
	}
	if !slices.Equal(p.names, source.names) {
		return fmt.Errorf("torch: copy between different networks: %q and %q", p.names, source.names)
	}
	for i, t := range p.tensors {
		if from := source.tensors[i]; !slices.Equal(t.Shape(), from.Shape()) {
			return fmt.Errorf("torch: copy %q of shape %v from shape %v", p.names[i], t.Shape(), from.Shape())
		}
	}
	return nil
}

// overwrite copies a tensor into each parameter, in place and outside the graph.
func (p *Parameters) overwrite(s *Scope, from func(i int) *Tensor) error {
	noGrad(func() {
		for i, t := range p.tensors {
			source := from(i)
			if !s.ready("copy "+p.names[i], t, source) {
				return
			}
			if err := call("copy "+p.names[i], func() { libtch.AtCopy_(t.c, source.c) }); err != nil {
				s.fail(err)
			}
		}
	})
	return s.Err()
}
