package history

import (
	"math"
	"strings"

	"github.com/prometheus/common/model"
)

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
