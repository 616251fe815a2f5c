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
	powerNodes = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "power_nodes",
		Help:           "Nodes by how their power is known after the last measurement: calibrated by measured watts; gathering (samples too few or too similar); or gpu, absent, stale, invalid, failed, where the annotation or the default counts.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"state"})
	powerDegraded = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "power_degraded_total",
		Help:           "How often a node's power was no longer measured, by reason: gpu, absent, stale, invalid, failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	powerWatts = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "power_watts",
		Help:           "Watts of the nodes whose power is measured: measured, or what the models in use say for the same nodes (model).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"by"})
	valuesIgnored = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "usage_values_ignored_total",
		Help:           "Measured values that were ignored, by reason: invalid (NaN, infinite, negative, absurdly large), or unknown (of a node or pod that the cluster does not have).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(polls, nodesNow, degradedTotal, powerNodes, powerDegraded, powerWatts, valuesIgnored)
	})
}

// count adds the outcome to the metrics.
func (o *outcome) count() {
	nodesNow.WithLabelValues("measured").Set(float64(o.Measured))
	for _, reason := range []degradation{usageAbsent, usageStale, usageInvalid, usageFailed} {
		nodesNow.WithLabelValues(string(reason)).Set(float64(o.Degraded[reason]))
		degradedTotal.WithLabelValues(string(reason)).Add(float64(len(o.Changed[reason])))
	}
	for _, state := range powerStates {
		powerNodes.WithLabelValues(string(state)).Set(float64(o.Power.Nodes[state]))
		if lost := len(o.Power.Lost[state]); lost > 0 {
			powerDegraded.WithLabelValues(string(state)).Add(float64(lost))
		}
	}
	powerWatts.WithLabelValues("measured").Set(o.Power.Measured)
	powerWatts.WithLabelValues("model").Set(o.Power.Modelled)
	valuesIgnored.WithLabelValues("invalid").Add(float64(o.Rejected))
	valuesIgnored.WithLabelValues("unknown").Add(float64(o.Unknown))
}
