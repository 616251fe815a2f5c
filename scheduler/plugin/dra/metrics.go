package dra

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"gnnsched/internal/cluster"
)

// choices counts the pods with claims that were reserved.
var choices = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "gnnsched", Name: "claim_choices_total", StabilityLevel: metrics.ALPHA,
	Help: "Pods with claims that got a node. choice is taken if they got the devices that the profile's policy chose, other if the allocator could not give them, and none if the policy had no opinion.",
}, []string{"profile", "choice"})

// unconfirmed counts the claims whose allocations are neither known to be written nor known not to be.
var unconfirmed = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "gnnsched", Name: "claims_unconfirmed", StabilityLevel: metrics.ALPHA,
	Help: "Claims whose allocation could not be written for certain. Their pods and devices wait until the API server says whether it was.",
}, []string{"profile"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(choices, unconfirmed) })

// countChoice counts a pod that got some cards, given those that the policy chose.
func countChoice(profile string, chosen, got cluster.DeviceSet) {
	result := "taken"
	switch {
	case chosen == 0:
		result = "none"
	case chosen != got:
		result = "other"
	}
	choices.WithLabelValues(profile, result).Inc()
}
