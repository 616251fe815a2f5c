// Package metric declares the metrics of gnnsched, which kube-scheduler serves beside its own, and reads counters back.
package metric

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Set holds the metrics of one package. Their names begin with gnnsched_. Until Register is called, they go nowhere: what
// WithLabelValues returned before stays without effect. A test of the docs reads the calls of a Set's methods.
type Set struct {
	all  []metrics.Registerable
	once sync.Once
}

// Register makes this process serve the metrics. Further calls do nothing.
func (s *Set) Register() { s.once.Do(func() { legacyregistry.MustRegister(s.all...) }) }

// Counter declares a counter.
func (s *Set) Counter(name, help string) *metrics.Counter {
	return declare(s, metrics.NewCounter((*metrics.CounterOpts)(gauge(name, help))))
}

// Counters declares a counter for each value of the labels.
func (s *Set) Counters(name, help string, labels ...string) *metrics.CounterVec {
	return declare(s, metrics.NewCounterVec((*metrics.CounterOpts)(gauge(name, help)), labels))
}

// Gauge declares a gauge.
func (s *Set) Gauge(name, help string) *metrics.Gauge {
	return declare(s, metrics.NewGauge(gauge(name, help)))
}

// Gauges declares a gauge for each value of the labels.
func (s *Set) Gauges(name, help string, labels ...string) *metrics.GaugeVec {
	return declare(s, metrics.NewGaugeVec(gauge(name, help), labels))
}

// Histogram declares a histogram.
func (s *Set) Histogram(name, help string, buckets []float64) *metrics.Histogram {
	return declare(s, metrics.NewHistogram(histogram(name, help, buckets)))
}

// Histograms declares a histogram for each value of the labels.
func (s *Set) Histograms(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return declare(s, metrics.NewHistogramVec(histogram(name, help, buckets), labels))
}

// Exponential returns the bounds of buckets, each of which is factor times the one before.
func Exponential(first, factor float64, count int) []float64 {
	return metrics.ExponentialBuckets(first, factor, count)
}

const subsystem = "gnnsched"

func gauge(name, help string) *metrics.GaugeOpts {
	return &metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
}

func histogram(name, help string, buckets []float64) *metrics.HistogramOpts {
	return &metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}
}

func declare[M metrics.Registerable](s *Set, m M) M {
	s.all = append(s.all, m)
	return m
}

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
