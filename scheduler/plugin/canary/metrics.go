package canary

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	current = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "share",
		Help:           "Share of the owners or namespaces whose pods the profile's network or policy places; 0 before it begins and after it stopped.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	stopped = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "share_stopped",
		Help:           "1 if the share was stopped, by reason: failures, latency, or earlier for a stop before this process began.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "reason"})
	pods = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "share_pods_total",
		Help:           "Pods by group (canary or rest) and result: bound, fallback, not_bound; or lost, which counts a bound pod of this process again that the kubelet refused or evicted.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "group", "result"})
	attempts = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "share_attempt_duration_seconds",
		Help:           "Time of one scheduling attempt from the snapshot to the choice of a node, by group (canary or rest).",
		Buckets:        metrics.ExponentialBuckets(50e-6, 1.5, 28), // 50 µs to 2.8 s
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "group"})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(current, stopped, pods, attempts) })
}
