package infer

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
)

// MixedNetwork is the weights of a network on the mixed graph, ready to multiply: one network for any
// node, and one for nodes with GPU devices. It is immutable and safe for concurrent use.
type MixedNetwork struct {
	Nodes     *Network
	Devices   *GPUNetwork
	Tolerance float32 // checkpoint.Mixed.Tolerance

	fingerprint uint64
}

// NewMixed prepares the weights of a checkpoint on the mixed graph. The error wraps one of package
// checkpoint's: the checkpoint is not valid, or reads another graph.
func NewMixed(c *checkpoint.Checkpoint) (*MixedNetwork, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := c.Manifest.Architecture.Mixed
	if m == nil {
		return nil, fmt.Errorf("%w: the network does not read the mixed graph", checkpoint.ErrSchema)
	}
	n := &MixedNetwork{Tolerance: m.Tolerance, fingerprint: c.Fingerprint()}
	nodes, devices := c.Parts()
	var err error
	if n.Nodes, err = New(nodes); err != nil {
		return nil, err
	}
	n.Devices, err = NewGPU(devices)
	return n, err
}

// Fingerprint returns the checkpoint's fingerprint; see checkpoint.Checkpoint.Fingerprint.
func (n *MixedNetwork) Fingerprint() uint64 { return n.fingerprint }
