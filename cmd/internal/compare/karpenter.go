//go:build !service && !k136

package compare

import (
	"fmt"
	"time"

	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/autoscale/karpenter"
)

// Karpenter is compiled only into the program that evaluates, with the release of Kubernetes that its version is made for. Behind the colon
// may be how often it looks for nodes to remove; it then tries some nodes in a look, and the others in the next ones. Behind an @ may be
// the consolidateAfter of all pools.
func init() {
	autoscalers["karpenter"] = func(v variant, c *autoscale.Catalog, _ uint64) (autoscale.Scaler, error) {
		var options []karpenter.Option
		if v.what != "" {
			d, err := time.ParseDuration(v.what)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("%q is no period such as 60s, in which it looks for nodes to remove", v.what)
			}
			options = append(options, karpenter.Poll(d), karpenter.Singles(20))
		}
		if v.eager != "" {
			d, err := time.ParseDuration(v.eager)
			if err != nil || d < 0 {
				return nil, fmt.Errorf("%q is no time such as 5m, after which nodes are consolidated", v.eager)
			}
			options = append(options, karpenter.ConsolidateAfter(d))
		}
		return karpenter.New(c, options...)
	}
}
