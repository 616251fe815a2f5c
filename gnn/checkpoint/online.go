package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// CheckOnline returns why the network cannot learn from a running scheduler, or nil if it can. The steps that a scheduler
// sends lack what these networks read besides: devices, kinds and the peers of pods.
func (c *Checkpoint) CheckOnline() error {
	switch a := c.Manifest.Architecture; {
	case a.Graph != ClusterGraph:
		return fmt.Errorf("a network that reads the graph %q cannot learn from a running scheduler: its steps lack devices and kinds", a.Graph)
	case a.ReadsPeers():
		return errors.New("a network that reads the peers of pods cannot learn from a running scheduler, whose steps do not hold them")
	}
	return nil
}

// startWidth is the hidden width of a network that begins as the shipped rule.
const startWidth = 32

// ShippedStart returns the network with which a variant begins to learn from a running scheduler: the shipped network if that can, and else
// one of the same encoder and head that places as the shipped rule does until it learns.
func ShippedStart(variant string) (*Checkpoint, error) {
	c, err := Shipped(variant)
	if err != nil || c.Manifest.Architecture.Graph != KindsGraph {
		return c, err
	}
	rule, err := Shipped("rule")
	if err != nil {
		return nil, err
	}
	a := rule.Manifest.Architecture
	a.Encoder, a.Head, a.Hidden = c.Manifest.Architecture.Encoder, c.Manifest.Architecture.Head, startWidth
	start := Random(a, rand.New(rand.NewPCG(1, 1)))
	start.Manifest = rule.Manifest
	start.Manifest.Architecture, start.Manifest.Schema = a, a.Schema()
	return start, start.FollowRuleOf(rule)
}

// OriginFigure, among a checkpoint's training figures, names the network that online learning began with.
const OriginFigure = "onlineOrigin"

// Origin returns the name of the network that all online learning up to c began with: the upper 53 bits of its fingerprint, which fit a
// JSON number.
func (c *Checkpoint) Origin() float64 {
	if o, ok := c.Manifest.Training[OriginFigure]; ok {
		return o
	}
	return float64(c.Fingerprint() >> 11)
}
