//go:build !service && !k136

package compare

import (
	"errors"

	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/autoscale/karpenter"
)

// Karpenter is compiled only into the program that evaluates, with the release of Kubernetes that its version is made for.
func init() {
	autoscalers["karpenter"] = func(what string, c *autoscale.Catalog, _ uint64) (autoscale.Scaler, error) {
		if what != "" {
			return nil, errors.New("it takes nothing behind a colon; NodePools say what it does")
		}
		return karpenter.New(c)
	}
}
