//go:build torch

package torch

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// GPUNetwork is infer.GPUNetwork with gradients, over batches of nodes. The equations are in that
// type's comment; the parity test compares the two.
type GPUNetwork struct {
	Parameters

	manifest checkpoint.Manifest
	widths   feature.GPUWidths
	byName   map[string]*Tensor
}

// NewGPUNetwork returns a network with the weights of a checkpoint on the GPU graph.
func NewGPUNetwork(c *checkpoint.Checkpoint) (*GPUNetwork, error) {
	layout, err := c.Manifest.Architecture.GPULayout()
	if err != nil {
		return nil, err
	}
	n := &GPUNetwork{manifest: c.Manifest, widths: layout.Widths}
	if n.byName, err = n.load(c); err != nil {
		return nil, err
	}
	return n, nil
}

// Checkpoint returns the present weights with the manifest that NewGPUNetwork was given.
func (n *GPUNetwork) Checkpoint() (*checkpoint.Checkpoint, error) { return n.save(n.manifest) }

// GPUBatch is n nodes, with d devices together, of k clusters. Its rows have the widths of
// feature.GPULayout.
type GPUBatch struct {
	X       []float32 // n × Widths.Node: features of the nodes
	Free    []float32 // d: free part of each device
	Node    []int64   // d: node of each device
	Cluster []int64   // n: cluster of each node
	u       []float32 // k × Widths.Cluster: features of the clusters

	clusters int // k
}

// Add appends a node of the cluster that was begun last.
func (b *GPUBatch) Add(g *graph.GPUNode) {
	node := int64(len(b.Cluster))
	b.X = append(b.X, g.X...)
	b.Free = append(b.Free, g.Free...)
	for range g.Free {
		b.Node = append(b.Node, node)
	}
	b.Cluster = append(b.Cluster, int64(b.clusters)-1)
}

// Begin begins a cluster with the features u. Add appends the nodes that follow to it.
func (b *GPUBatch) Begin(u []float32) {
	b.u = append(b.u, u...)
	b.clusters++
}

// Reset empties the batch.
func (b *GPUBatch) Reset() {
	*b = GPUBatch{X: b.X[:0], Free: b.Free[:0], Node: b.Node[:0], Cluster: b.Cluster[:0], u: b.u[:0]}
}

// Values returns the value v of every node, [n, 1]: the critic's if prefix is empty, the actor's if it
// is checkpoint.ActorPrefix.
func (n *GPUNetwork) Values(s *Scope, b *GPUBatch, prefix string) *Tensor {
	w := func(name string) *Tensor { return n.byName[prefix+name] }
	affine := func(name string, x *Tensor) *Tensor { return s.Linear(x, w(name+".weight"), w(name+".bias")) }
	nodes := len(b.Cluster)
	x := s.Float32(b.X, nodes, n.widths.Node)
	h := affine("node", x)
	if n.manifest.Architecture.Encoder == checkpoint.Linear {
		return b.withDevices(s, h)
	}
	if n.manifest.Architecture.Encoder == checkpoint.GNN && len(b.Node) > 0 {
		of := s.Int64(b.Node, len(b.Node))
		free := s.project(s.Float32(interpolate(b.Free), len(b.Free), feature.DeviceKnots), w("device.free.weight"))
		m := s.relu(s.Add(free, s.Rows(affine("device", x), of)))
		h = s.Add(h, s.project(s.segmentSum(m, of, nodes), w("node.device.weight")))
	}
	phi := affine("node.out", s.relu(h))
	psi := affine("cluster.out", s.relu(affine("cluster", s.Float32(b.u, b.clusters, n.widths.Cluster))))
	return b.withDevices(s, s.sumAlong(s.Mul(phi, s.Rows(psi, s.Int64(b.Cluster, nodes))), 1))
}

// withDevices returns v [n, 1] with zeros for the nodes without devices.
func (b *GPUBatch) withDevices(s *Scope, v *Tensor) *Tensor {
	has, without := make([]float32, len(b.Cluster)), len(b.Cluster)
	for _, node := range b.Node {
		if has[node] == 0 {
			has[node] = 1
			without--
		}
	}
	if without == 0 {
		return v
	}
	return s.Mul(v, s.Float32(has, len(has), 1))
}

// interpolate returns the weights of the knots (see graph.Knots), one row for each device.
func interpolate(free []float32) []float32 {
	t := make([]float32, len(free)*feature.DeviceKnots)
	for d, f := range free {
		k, next := graph.Knots(f)
		t[d*feature.DeviceKnots+k], t[d*feature.DeviceKnots+k+1] = 1-next, next
	}
	return t
}
