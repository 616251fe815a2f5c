package checkpoint

import (
	"errors"
	"fmt"
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
