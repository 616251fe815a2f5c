package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
)

// The series of usage.
const (
	cpuUsage    = "container_cpu_usage_seconds_total"
	memoryUsage = "container_memory_working_set_bytes"
)

// used are the two queries of what pods or nodes use. label names the pod or node in the answers.
type used struct {
	label       model.LabelName
	cpu, memory string
}

// usageQueries are the queries of pods and of nodes.
var usageQueries = []used{queriesOf("namespace,pod", `pod!="",container!=""`, "pod"), queriesOf("node", `id="/"`, "node")}

func queriesOf(by, match string, label model.LabelName) used {
	return used{label: label,
		cpu:    fmt.Sprintf("sum by (%s) (rate(%s{%s}[5m]))", by, cpuUsage, match),
		memory: fmt.Sprintf("sum by (%s) (%s{%s})", by, memoryUsage, match),
	}
}

// readUsage reads what pods and nodes used.
func (r *reader) readUsage(ctx context.Context, from, to time.Time) error {
	for _, q := range usageQueries {
		cpu, err := r.ranged(ctx, cpuUsage, q.cpu, from, to)
		if err != nil {
			return err
		}
		memory, err := r.ranged(ctx, memoryUsage, q.memory, from, to)
		if err != nil {
			return err
		}
		r.rows.samples = append(r.rows.samples, joined(q.label, cpu, memory)...)
	}
	return nil
}

// joined joins measurements of CPU and memory. One without the other counts as 0.
func joined(label model.LabelName, cpu, memory model.Matrix) []record.Sample {
	type key struct {
		at              int64
		namespace, name string
	}
	all := map[key]*record.Sample{}
	add := func(m model.Matrix, set func(*record.Sample, float64)) {
		for _, series := range m {
			for _, v := range series.Values {
				k := key{int64(v.Timestamp), string(series.Metric["namespace"]), string(series.Metric[label])}
				if k.name == "" || k.at <= 0 {
					continue
				}
				if all[k] == nil {
					all[k] = &record.Sample{Time: k.at, Namespace: k.namespace, Name: k.name}
				}
				set(all[k], float64(v.Value))
			}
		}
	}
	add(cpu, func(s *record.Sample, v float64) { s.MilliCPU = amount(v*1000, cluster.MaxMilliCPU) })
	add(memory, func(s *record.Sample, v float64) { s.Memory = amount(v, cluster.MaxMemory) })
	out := make([]record.Sample, 0, len(all))
	for _, s := range all {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b record.Sample) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Measured is what pods and nodes used at one time.
type Measured struct {
	Samples []record.Sample
	Invalid int // pods and nodes that Samples lacks, because a value of theirs was negative or no finite number
}

// Measure asks what pods and nodes use at a time, which all samples get. No usage of any pod or node is an error.
func Measure(ctx context.Context, ask Asker, at time.Time) (m Measured, err error) {
	for _, q := range usageQueries {
		cpu, err := ask.Query(ctx, q.cpu, at)
		if err != nil {
			return m, fmt.Errorf("%s: %w", cpuUsage, err)
		}
		memory, err := ask.Query(ctx, q.memory, at)
		if err != nil {
			return m, fmt.Errorf("%s: %w", memoryUsage, err)
		}
		wrong := map[[2]string]bool{}
		for _, s := range slices.Concat(cpu, memory) {
			if v := float64(s.Value); s.Histogram != nil || !(v >= 0) || math.IsInf(v, 1) {
				wrong[[2]string{string(s.Metric["namespace"]), string(s.Metric[q.label])}] = true
			}
		}
		m.Invalid += len(wrong)
		for _, s := range joined(q.label, atOnce(cpu, at), atOnce(memory, at)) {
			if !wrong[[2]string{s.Namespace, s.Name}] {
				m.Samples = append(m.Samples, s)
			}
		}
	}
	if len(m.Samples)+m.Invalid == 0 {
		return m, fmt.Errorf("Prometheus has no series %s and %s", cpuUsage, memoryUsage)
	}
	return m, nil
}

// atOnce returns a vector as series of one value at a time.
func atOnce(v model.Vector, at time.Time) model.Matrix {
	out := make(model.Matrix, len(v))
	for i, s := range v {
		out[i] = &model.SampleStream{Metric: s.Metric, Values: []model.SamplePair{{Timestamp: model.TimeFromUnixNano(at.UnixNano()), Value: s.Value}}}
	}
	return out
}
