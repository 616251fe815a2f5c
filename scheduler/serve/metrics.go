package serve

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	requests = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "serve_requests_total",
		Help:           "Requests by path and result: ok, or the reason of the error. Requests that are refused for their credentials have the path door.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"path", "result"})
	duration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "serve_request_duration_seconds",
		Help:           "Time of an answer from its first byte read to its last byte written.",
		Buckets:        metrics.ExponentialBuckets(100e-6, 2, 14), // 0.1 ms to 0.8 s
		StabilityLevel: metrics.ALPHA,
	}, []string{"path"})
	inFlight = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "serve_requests_inflight",
		Help:           "Answers that are being worked out, those that nobody waits for any more included.",
		StabilityLevel: metrics.ALPHA,
	})
	refusedPods = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "serve_refused_gpu_pods_total",
		Help:           "Times that a pod was refused on every node because nobody would assign its GPU devices.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(requests, duration, inFlight, refusedPods) })
}
