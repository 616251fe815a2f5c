package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// ask asks for a vector. series is for errors. Samples without a valid value are left out and counted.
func (r *reader) ask(ctx context.Context, series, query string, at time.Time) (out model.Vector, err error) {
	err = r.again(ctx, series, func(ctx context.Context) error {
		out, err = r.Ask.Query(ctx, query, at)
		return err
	})
	asked := len(out)
	out = slices.DeleteFunc(out, func(s *model.Sample) bool { return s.Histogram != nil || !valid(s.Value) })
	r.gaps.invalid[series] += asked - len(out)
	return out, err
}

// query asks for a vector whose samples have the labels that the exporter gave them.
func (r *reader) query(ctx context.Context, series, query string, at time.Time) (model.Vector, error) {
	out, err := r.ask(ctx, series, query, at)
	return merged(out), err
}

// ranged asks for measurements within a chunk. A measurement at its end belongs to the next one.
func (r *reader) ranged(ctx context.Context, series, query string, from, to time.Time) (out model.Matrix, err error) {
	err = r.again(ctx, series, func(ctx context.Context) error {
		out, err = r.Ask.Range(ctx, query, from, to.Add(-time.Millisecond), r.Usage)
		return err
	})
	return out, err
}

// last asks for the last values of a series within the chunk, one for each of the labels.
func (r *reader) last(ctx context.Context, series, by string, at time.Time) (model.Vector, error) {
	return r.query(ctx, series, fmt.Sprintf("max by (%s) (last_over_time(%s[%s]))", widened(by), series, r.window), at)
}

// history asks for the series within the chunk: one for each value of the labels, or with all labels if by is empty. A value is the time of
// the series' last scrape. Later scrapes come later, so that of several series of one object the newest wins.
func (r *reader) history(ctx context.Context, series, by string, at time.Time) (model.Vector, error) {
	all, times := fmt.Sprintf("last_over_time(%s[%s])", series, r.window),
		fmt.Sprintf("max_over_time(timestamp(%s)[%s:30s])", series, r.window)
	if by != "" {
		all, times = fmt.Sprintf("max by (%s) (%s)", widened(by), all), fmt.Sprintf("max by (%s) (%s)", widened(by), times)
	}
	out, err := r.ask(ctx, series, all, at)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	stamps, err := r.ask(ctx, series, times, at)
	if err != nil {
		return nil, err
	}
	// A series that lived for less than a step may have no time. It counts as older than the others.
	scraped := make(map[string]model.SampleValue, len(stamps))
	for _, s := range stamps {
		scraped[s.Metric.String()] = s.Value
	}
	for _, s := range out {
		delete(s.Metric, model.MetricNameLabel)
		s.Value = scraped[s.Metric.String()]
	}
	out = merged(out)
	newestLast(out)
	return out, nil
}

// newestLast sorts by the values, which are times, and then by the labels.
func newestLast(all model.Vector) {
	slices.SortFunc(all, func(a, b *model.Sample) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Metric.String(), b.Metric.String()))
	})
}

// own are the labels that identify objects and that a target may have, too. Unless a job honours the exporter's labels, Prometheus renames
// them to exported_pod and so on, and pod is the target's.
var own = []model.LabelName{"namespace", "pod", "uid", "container", "node"}

const exported = "exported_"

// job is the label that distinguishes series of two scrape configurations.
const job = "job"

// widened adds to a list of labels those under which Prometheus may have put them, and the job.
func widened(by string) string {
	out := by
	for label := range strings.SplitSeq(by, ",") {
		for _, l := range own {
			if label == string(l) {
				out += "," + exported + label
			}
		}
	}
	return out + "," + job
}

// restore gives metrics the labels that their exporter gave them. If one metric of a job has a renamed label, the job's metrics without it
// had none at the exporter: a pod without a node has the target's node.
func restore(all []model.Metric) {
	type label struct{ job, name model.LabelValue }
	renamed := map[label]bool{}
	for _, m := range all {
		for _, l := range own {
			if _, ok := m[exported+l]; ok {
				renamed[label{m[job], model.LabelValue(l)}] = true
			}
		}
	}
	for _, m := range all {
		for _, l := range own {
			if !renamed[label{m[job], model.LabelValue(l)}] {
				continue
			}
			if m[l] = m[exported+l]; m[l] == "" {
				delete(m, l)
			}
			delete(m, exported+l)
		}
		delete(m, job)
	}
}

// merged returns the samples with the labels of their exporter. Of several with the same labels, the largest value counts.
func merged(all model.Vector) model.Vector {
	metrics := make([]model.Metric, len(all))
	for i, s := range all {
		metrics[i] = s.Metric
	}
	restore(metrics)
	out, at := all[:0], make(map[model.Fingerprint]int, len(all))
	for _, s := range all {
		key := s.Metric.Fingerprint()
		if i, twice := at[key]; twice {
			out[i].Value = max(out[i].Value, s.Value)
			continue
		}
		at[key] = len(out)
		out = append(out, s)
	}
	return out
}

// valid reports whether a value is a finite number and not negative.
func valid(v model.SampleValue) bool { return v >= 0 && !math.IsInf(float64(v), 1) }
