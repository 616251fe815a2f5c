package usage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/choice"
	"gnnsched/internal/metric"
	"gnnsched/internal/promapi"
)

// The sources.
const (
	PrometheusSource = "prometheus"
	MetricsAPISource = "metrics.k8s.io"
)

// Config says where measured usage comes from.
type Config struct {
	// Source is prometheus or metrics.k8s.io, which has CPU and memory only.
	Source         string `json:"source"`
	promapi.Server `json:",inline"`
	// Queries replaces the default queries by name. An empty query is not asked.
	Queries map[string]string `json:"queries,omitempty"`
	// Interval is the time between two measurements, 15s by default, and Timeout that after which one is given up,
	// 10s by default, but at most MaxAge.
	Interval metav1.Duration `json:"interval,omitempty"`
	Timeout  metav1.Duration `json:"timeout,omitempty"`
	// MaxAge is the age from which a measurement is not used any more, 3m by default.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
	// NetworkCapacity and DiskCapacity are the capacity of a node's network and disk in bytes a second. The defaults are 125M (1 Gbit/s) and
	// 200M.
	NetworkCapacity resource.Quantity `json:"networkCapacity,omitzero"`
	DiskCapacity    resource.Quantity `json:"diskCapacity,omitzero"`
}

// Default fills in missing values, and returns an error for the first invalid value.
func (c *Config) Default() error {
	for _, d := range []struct {
		to    *metav1.Duration
		value time.Duration
	}{{&c.Interval, 15 * time.Second}, {&c.MaxAge, 3 * time.Minute}} {
		d.to.Duration = cmp.Or(d.to.Duration, d.value)
	}
	if c.Timeout.Duration == 0 { // a negative MaxAge is an error of its own
		c.Timeout.Duration = 10 * time.Second
		if c.MaxAge.Duration > 0 {
			c.Timeout.Duration = min(c.Timeout.Duration, c.MaxAge.Duration)
		}
	}
	for _, q := range []struct {
		to    *resource.Quantity
		value string
	}{{&c.NetworkCapacity, "125M"}, {&c.DiskCapacity, "200M"}} {
		if q.to.IsZero() {
			*q.to = resource.MustParse(q.value)
		}
	}
	return c.validate()
}

func (c *Config) validate() error {
	if c.Interval.Duration < 5*time.Second || c.Interval.Duration > time.Minute {
		return fmt.Errorf("usage: interval is %v, want a time from 5s to 1m", c.Interval.Duration)
	}
	if c.Timeout.Duration <= 0 {
		return fmt.Errorf("usage: timeout is %v, want more than 0", c.Timeout.Duration)
	}
	if c.MaxAge.Duration < c.Interval.Duration {
		return fmt.Errorf("usage: maxAge is %v, want at least interval (%v)", c.MaxAge.Duration, c.Interval.Duration)
	}
	if c.MaxAge.Duration < c.Timeout.Duration {
		return fmt.Errorf("usage: maxAge is %v, want at least timeout (%v), or a source that hangs would be told too late",
			c.MaxAge.Duration, c.Timeout.Duration)
	}
	if c.NetworkCapacity.Sign() < 0 || c.DiskCapacity.Sign() < 0 {
		return errors.New("usage: networkCapacity and diskCapacity must be positive")
	}
	switch c.Source {
	case PrometheusSource:
		return c.validatePrometheus()
	case MetricsAPISource:
		if c.Server != (promapi.Server{}) || len(c.Queries) > 0 {
			return fmt.Errorf("usage: source %s is asked over the API server: address, queries, files and serverName are for %s",
				MetricsAPISource, PrometheusSource)
		}
		return nil
	}
	return fmt.Errorf("usage: source %q is not known; choose %s or %s, or leave usage out", c.Source, PrometheusSource, MetricsAPISource)
}

func (c *Config) validatePrometheus() error {
	if err := c.Server.Validate(); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	for name := range c.Queries {
		if _, known := defaultQueries[name]; !known {
			return fmt.Errorf("usage: %w", choice.Unknown("query", name, slices.Sorted(maps.Keys(defaultQueries))))
		}
	}
	return nil
}

// KnowsThrottled reports whether the source measures the CPU that pods wanted and did not get.
func (c *Config) KnowsThrottled() bool {
	query, replaced := c.Queries[throttledQuery]
	return c.Source == PrometheusSource && (!replaced || query != "")
}

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
