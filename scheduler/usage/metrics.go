package usage

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of measured usage. kube-scheduler serves them beside its own.
var (
	polls = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "usage_polls_total",
		Help:           "Measurements of usage, by result: ok, or error if the source or one of its queries failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	nodesNow = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "usage_nodes",
		Help:           "Nodes by the state of their usage after the last measurement: measured; or absent, stale, invalid, failed, which are scored by requests.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"state"})
	degradedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "usage_degraded_total",
		Help:           "How often a node came to be scored by requests, by reason: absent, stale, invalid, failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	valuesIgnored = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "usage_values_ignored_total",
		Help:           "Measured values that were ignored, by reason: invalid (NaN, infinite, negative, absurdly large), or unknown (of a node or pod that the cluster does not have).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(polls, nodesNow, degradedTotal, valuesIgnored) })
}

// count adds the outcome to the metrics.
func (o *outcome) count() {
	nodesNow.WithLabelValues("measured").Set(float64(o.Measured))
	for _, reason := range []degradation{usageAbsent, usageStale, usageInvalid, usageFailed} {
		nodesNow.WithLabelValues(string(reason)).Set(float64(o.Degraded[reason]))
		degradedTotal.WithLabelValues(string(reason)).Add(float64(len(o.Changed[reason])))
	}
	valuesIgnored.WithLabelValues("invalid").Add(float64(o.Rejected))
	valuesIgnored.WithLabelValues("unknown").Add(float64(o.Unknown))
}
