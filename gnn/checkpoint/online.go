package checkpoint

import (
	"errors"
	"fmt"
)

// CheckOnline returns why the network cannot learn from a running scheduler, or nil if it can. The steps that a scheduler
// sends lack what these networks read besides: the devices that a choice took, the peers of pods, and the objective that counted.
func (c *Checkpoint) CheckOnline() error {
	switch a := c.Manifest.Architecture; {
	case a.Graph == MixedGraph:
		return fmt.Errorf("a network that reads the graph %q cannot learn from a running scheduler, whose steps do not hold the devices that a choice took", a.Graph)
	case a.ReadsPeers():
		return errors.New("a network that reads the peers of pods cannot learn from a running scheduler, whose steps do not hold them")
	case len(c.Manifest.Wishes) > 0:
		return errors.New("a network of many objectives cannot learn from a running scheduler, whose steps do not hold the objective")
	}
	return nil
}
