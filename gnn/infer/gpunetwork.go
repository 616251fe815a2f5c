package infer

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
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
// The value of a cluster is the sum of v over its nodes (value decomposition as in Sunehag et
// al. 2018). It predicts a cost, idle GPUs, so a placement is worth v of the node before it minus v
// of the node after it. The MLP encoder lacks the devices' messages; the linear encoder is
// v = n · x. A GPUNetwork is immutable and safe for concurrent use.
type GPUNetwork struct {
	arch         checkpoint.Architecture
	fingerprint  uint64
	layout       *feature.GPULayout
	value, actor *tower // actor is nil without one
}

// tower is the parameters of one value: the critic's or the actor's.
type tower struct {
	encoder                      checkpoint.Encoder
	h                            int
	node, device, message, nodeO dense
	free                         []float32 // feature.DeviceKnots × H
	cluster, clusterO            dense
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
	layout, err := a.GPULayout()
	if err != nil {
		return nil, err
	}
	n := &GPUNetwork{arch: a, fingerprint: c.Fingerprint(), layout: layout, value: newTower(c, "")}
	if a.Head == checkpoint.ActorCritic {
		n.actor = newTower(c, checkpoint.ActorPrefix)
	}
	return n, nil
}

// Fingerprint returns the checkpoint's fingerprint; see checkpoint.Checkpoint.Fingerprint.
func (n *GPUNetwork) Fingerprint() uint64 { return n.fingerprint }

func newTower(c *checkpoint.Checkpoint, prefix string) *tower {
	a := c.Manifest.Architecture
	layer := func(name string) dense {
		w := c.Weights[prefix+name+".weight"]
		return newDense(w.Data, c.Weights[prefix+name+".bias"].Data, w.Shape[0], w.Shape[1]) // Data is nil if there is no bias
	}
	t := &tower{encoder: a.Encoder, h: a.Hidden, node: layer("node")}
	if a.Encoder == checkpoint.Linear {
		t.h = 1
		return t
	}
	t.nodeO = layer("node.out")
	t.cluster, t.clusterO = layer("cluster"), layer("cluster.out")
	if a.Encoder == checkpoint.GNN {
		t.device, t.message = layer("device"), layer("node.device")
		t.free = layer("device.free").wT
	}
	return t
}

// Layout returns the features that the network reads.
func (n *GPUNetwork) Layout() *feature.GPULayout { return n.layout }

// Architecture returns the network's architecture.
func (n *GPUNetwork) Architecture() checkpoint.Architecture { return n.arch }

// Width is the length of embeddings.
func (n *GPUNetwork) Width() int { return n.value.h }

// GPUSession runs one value of a network. It is not safe for concurrent use; sessions of one network
// run in parallel.
type GPUSession struct {
	t                        *tower
	base, device, sum, h, ch []float32
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
	return &GPUSession{
		t: t, base: make([]float32, t.h), device: make([]float32, t.h), sum: make([]float32, t.h),
		h: make([]float32, 2*t.h), ch: make([]float32, 2*t.h),
	}
}

// Node writes the embedding φ of a node to out, of length Width. φ is zero for a node without
// devices, where nothing can be idle.
func (s *GPUSession) Node(out []float32, g *graph.GPUNode) {
	t := s.t
	clear(out)
	if len(g.Free) == 0 {
		return
	}
	if t.encoder == checkpoint.Linear {
		t.node.addRows(out, g.X, 1)
		return
	}
	clear(s.h)
	t.node.addRows(s.h, g.X, 1)
	if t.encoder == checkpoint.GNN {
		clear(s.base)
		t.device.addRows(s.base, g.X, 1)
		clear(s.sum)
		for _, free := range g.Free {
			k, next := graph.Knots(free)
			low, high := t.free[k*t.h:(k+1)*t.h], t.free[(k+1)*t.h:(k+2)*t.h]
			for j, b := range s.base {
				s.sum[j] += max(b+(1-next)*low[j]+next*high[j], 0)
			}
		}
		t.message.addRows(s.h, s.sum, 1)
	}
	relu(s.h)
	t.nodeO.addRows(out, s.h, 1)
}

// Cluster writes the embedding ψ of a cluster's features to out, of length Width.
func (s *GPUSession) Cluster(out, x []float32) {
	t := s.t
	if t.encoder == checkpoint.Linear {
		out[0] = 1
		return
	}
	clear(s.ch)
	t.cluster.addRows(s.ch, x, 1)
	relu(s.ch)
	clear(out)
	t.clusterO.addRows(out, s.ch, 1)
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
