// Package counted reads counters of this process back.
package counted

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
)

// Value returns what a counter has counted since this process started: 0 if the metric is not registered.
func Value(c metrics.CounterMetric) (int, error) {
	m, registered := c.(prometheus.Metric)
	if !registered {
		return 0, nil
	}
	var value dto.Metric
	if err := m.Write(&value); err != nil {
		return 0, fmt.Errorf("read the metric: %w", err)
	}
	return int(value.GetCounter().GetValue()), nil
}
