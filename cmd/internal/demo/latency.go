package demo

import (
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"k8s.io/component-base/metrics/legacyregistry"
)

// counts are metrics of this process by profile. They grow from part to part.
type counts struct {
	attempts  map[string]*dto.Histogram // durations of scheduling attempts in seconds
	fallbacks map[string]float64        // decisions that upstream's scoring made because the network failed
}

// attempts reads the metrics.
func attempts() (counts, error) {
	c := counts{attempts: map[string]*dto.Histogram{}, fallbacks: map[string]float64{}}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return c, fmt.Errorf("read the metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch profile := label(m, "profile"); f.GetName() {
			case "gnnsched_scheduling_attempt_duration_seconds":
				c.attempts[profile] = m.GetHistogram()
			case "gnnsched_fallbacks_total":
				c.fallbacks[profile] += m.GetCounter().GetValue()
			}
		}
	}
	return c, nil
}

// latencies sets the duration of each scheduler's attempts, and its fallbacks, since before.
func (d *director) latencies(before counts) error {
	now, err := attempts()
	if err != nil {
		return err
	}
	for name, r := range d.results {
		r.attempt = quantile(since(now.attempts[name], before.attempts[name]), 0.5)
		r.fallbacks = now.fallbacks[name] - before.fallbacks[name]
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

// since returns what came to a histogram after it was equal to before, which may be nil.
func since(h, before *dto.Histogram) *dto.Histogram {
	out := &dto.Histogram{SampleCount: proto.Uint64(h.GetSampleCount() - before.GetSampleCount())}
	for i, b := range h.GetBucket() {
		count := b.GetCumulativeCount()
		if i < len(before.GetBucket()) {
			count -= before.GetBucket()[i].GetCumulativeCount()
		}
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: b.UpperBound, CumulativeCount: &count})
	}
	return out
}

// quantile returns the q-quantile of a histogram in seconds. It interpolates within a bucket, as
// Prometheus' histogram_quantile does. Beyond the last bucket it returns that bucket's bound, and 0
// without samples.
func quantile(h *dto.Histogram, q float64) time.Duration {
	if h.GetSampleCount() == 0 {
		return 0
	}
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
