//go:build !service && !k136

package compare

import (
	"fmt"
	"time"

	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/autoscale/karpenter"
)

// Karpenter is compiled only into the program that evaluates, with the release of Kubernetes that its version is made for. Behind the colon
// may be how often it looks for nodes to remove; it then tries some nodes in a look, and the others in the next ones.
func init() {
	autoscalers["karpenter"] = func(period string, c *autoscale.Catalog, _ uint64) (autoscale.Scaler, error) {
		if period == "" {
			return karpenter.New(c)
		}
		d, err := time.ParseDuration(period)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%q is no period such as 60s, in which it looks for nodes to remove", period)
		}
		return karpenter.New(c, karpenter.Poll(d), karpenter.Singles(20))
	}
}
