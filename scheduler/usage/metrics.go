package usage

import "gnnsched/internal/metric"

// set holds the metrics of measured usage.
var set metric.Set

var (
	polls = set.Counters("usage_polls_total",
		"Measurements of usage, by result: ok, or error if the source or one of its queries failed.", "result")
	nodesNow = set.Gauges("usage_nodes",
		"Nodes by the state of their usage after the last measurement: measured; or absent, stale, invalid, failed, "+
			"which are scored by requests.",
		"state")
	degradedTotal = set.Counters("usage_degraded_total",
		"How often a node came to be scored by requests, by reason: absent, stale, invalid, failed.", "reason")
	powerNodes = set.Gauges("power_nodes",
		"Nodes by how their power is known after the last measurement: calibrated by measured watts; "+
			"gathering (samples too few or too similar); or gpu, absent, stale, invalid, failed, where the annotation or the default counts.",
		"state")
	powerDegraded = set.Counters("power_degraded_total",
		"How often a node's power was no longer measured, by reason: gpu, absent, stale, invalid, failed.", "reason")
	powerWatts = set.Gauges("power_watts",
		"Watts of the nodes whose power is measured: measured, or what the models in use say for the same nodes (model).", "by")
	valuesIgnored = set.Counters("usage_values_ignored_total",
		"Measured values that were ignored, by reason: invalid (NaN, infinite, negative, absurdly large), "+
			"or unknown (of a node or pod that the cluster does not have).",
		"reason")
)

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
