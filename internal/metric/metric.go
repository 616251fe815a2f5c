// Package metric declares the metrics of gnnsched, which kube-scheduler serves beside its own, and reads counters back.
package metric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"gnnsched/internal/exit"
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

// Serve serves /metrics, and /healthz with the error of healthy, at an address until ctx ends.
func Serve(ctx context.Context, address string, healthy func() error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--metrics-address: %w", err), "choose a free port of this machine, such as 127.0.0.1:9090")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: SlowClientLimit, ReadTimeout: SlowClientLimit}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// SlowClientLimit is the time in which a body must have arrived.
const SlowClientLimit = 30 * time.Second

// GuardSlowClients returns a handler that gives a body a time to arrive, from when the header is there. Requests without a body, such
// as those for streams, may take longer. A handler may set another deadline.
func GuardSlowClients(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // a recorder in a test has none
		}
		next.ServeHTTP(w, r)
	})
}
