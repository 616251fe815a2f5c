package checkpoint

import (
	"errors"
	"fmt"
)

// CheckOnline returns why the network cannot learn from a running scheduler, or nil if it can. The steps that a scheduler
// sends hold one graph and the costs of one objective. They lack what these networks read besides: both graphs of a mixed
// cluster, the peers of pods, and the objective that counted.
func (c *Checkpoint) CheckOnline() error {
	switch a := c.Manifest.Architecture; {
	case a.Graph == MixedGraph:
		return fmt.Errorf("a network that reads the graph %q cannot learn from a running scheduler; its parts can, each by itself", a.Graph)
	case a.ReadsPeers():
		return errors.New("a network that reads the peers of pods cannot learn from a running scheduler, whose steps do not hold them")
	case len(c.Manifest.Wishes) > 0:
		return errors.New("a network of many objectives cannot learn from a running scheduler, whose steps do not hold the objective")
	}
	return nil
}
