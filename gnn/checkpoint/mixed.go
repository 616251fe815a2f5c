package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Mixed is the part of an Architecture on MixedGraph: its two networks.
type Mixed struct {
	Nodes   Architecture `json:"nodes"`   // on ClusterGraph
	Devices Architecture `json:"devices"` // on GPUGraph

	// Tolerance says when the devices' network does not mind where a pod without GPUs goes: where the
	// placement takes at most so many devices more than on the best candidate.
	Tolerance float32 `json:"tolerance"`
}

// Prefixes of the parameters' names in a network on MixedGraph.
const (
	nodesPrefix   = "nodes."
	devicesPrefix = "devices."
)

// manifests is the Config in the manifest of a joined checkpoint.
type manifests struct {
	Nodes   Manifest `json:"nodes"`
	Devices Manifest `json:"devices"`
}

// Join returns a checkpoint on MixedGraph with the weights of a network on ClusterGraph and of one on
// GPUGraph. Its manifest has theirs as its Config, and the first one's objective. An error wraps ErrSchema.
func Join(nodes, devices *Checkpoint, tolerance float32) (*Checkpoint, error) {
	a := Architecture{Graph: MixedGraph, Mixed: &Mixed{Nodes: nodes.Manifest.Architecture, Devices: devices.Manifest.Architecture, Tolerance: tolerance}}
	if err := a.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	config, err := json.Marshal(manifests{nodes.Manifest, devices.Manifest})
	if err != nil {
		return nil, fmt.Errorf("encode manifests: %w", err)
	}
	c := &Checkpoint{
		Manifest: Manifest{Schema: a.Schema(), Architecture: a, Objective: nodes.Manifest.Objective, Config: config},
		Weights:  map[string]Tensor{},
	}
	for name, t := range nodes.Weights {
		c.Weights[nodesPrefix+name] = t
	}
	for name, t := range devices.Weights {
		c.Weights[devicesPrefix+name] = t
	}
	return c, c.Validate()
}

// Parts returns the two networks of a valid checkpoint on MixedGraph as checkpoints of their own.
func (c *Checkpoint) Parts() (nodes, devices *Checkpoint) {
	m := c.Manifest.Architecture.Mixed
	var of manifests
	if err := json.Unmarshal(c.Manifest.Config, &of); err != nil {
		of = manifests{} // a manifest that Join did not write
	}
	return c.part(of.Nodes, m.Nodes, nodesPrefix), c.part(of.Devices, m.Devices, devicesPrefix)
}

// part returns the network with a manifest's text and an architecture.
func (c *Checkpoint) part(m Manifest, a Architecture, prefix string) *Checkpoint {
	p := &Checkpoint{Manifest: m, Weights: map[string]Tensor{}}
	p.Manifest.Architecture, p.Manifest.Schema = a, a.Schema()
	for name, t := range c.Weights {
		if name, ok := strings.CutPrefix(name, prefix); ok {
			p.Weights[name] = t
		}
	}
	return p
}

// validate checks the parts.
func (m *Mixed) validate() error {
	if m == nil {
		return errors.New("the graph mixed wants the parts nodes and devices")
	}
	if m.Nodes.Graph != ClusterGraph || m.Devices.Graph != GPUGraph {
		return fmt.Errorf("the parts of the graph mixed read the graphs %q and %q, want %q and %q", m.Nodes.Graph, m.Devices.Graph, ClusterGraph, GPUGraph)
	}
	if !(m.Tolerance >= 0 && m.Tolerance <= 1) {
		return fmt.Errorf("tolerance %v is outside 0 to 1", m.Tolerance)
	}
	if err := m.Nodes.Validate(); err != nil {
		return fmt.Errorf("part nodes: %w", err)
	}
	if err := m.Devices.Validate(); err != nil {
		return fmt.Errorf("part devices: %w", err)
	}
	return nil
}

// params lists the parameters of both parts.
func (m *Mixed) params() (p []Param) {
	for _, x := range m.Nodes.Params() {
		p = append(p, Param{nodesPrefix + x.Name, x.Shape})
	}
	for _, x := range m.Devices.Params() {
		p = append(p, Param{devicesPrefix + x.Name, x.Shape})
	}
	return p
}

// equal reports whether two architectures have the same parts.
func (m *Mixed) equal(o *Mixed) bool {
	if m == nil || o == nil {
		return m == o
	}
	return m.Nodes.Equal(o.Nodes) && m.Devices.Equal(o.Devices) && m.Tolerance == o.Tolerance
}
