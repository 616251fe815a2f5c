package demo

import (
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// latencies reads the duration of each scheduler's attempts, and its fallbacks, from the metrics
// of this process.
func (d *director) latencies() error {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r, ok := d.results[label(m, "profile")]
			if !ok {
				continue
			}
			switch f.GetName() {
			case "gnnsched_scheduling_attempt_duration_seconds":
				r.p50, r.p99 = quantile(m.GetHistogram(), 0.5), quantile(m.GetHistogram(), 0.99)
			case "gnnsched_fallbacks_total":
				r.fallbacks += m.GetCounter().GetValue()
			}
		}
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// quantile returns the q-quantile of a histogram in seconds. It interpolates within a bucket, as
// Prometheus' histogram_quantile does. Beyond the last bucket it returns that bucket's bound.
func quantile(h *dto.Histogram, q float64) time.Duration {
	rank := q * float64(h.GetSampleCount())
	below, from := 0.0, 0.0 // samples below the bucket, and its lower bound
	for _, b := range h.GetBucket() {
		count, to := float64(b.GetCumulativeCount()), b.GetUpperBound()
		if count >= rank && count > below {
			from += (to - from) * (rank - below) / (count - below)
			return time.Duration(from * float64(time.Second))
		}
		below, from = count, to
	}
	return time.Duration(from * float64(time.Second))
}
