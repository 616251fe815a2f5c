package history

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
)

// What one time has is what the history has for it.
func TestMeasure(t *testing.T) {
	ask := clientOf(t, historytest.Server(t, nil).URL)
	for _, c := range []struct {
		after time.Duration
		want  []record.Sample
	}{
		{10 * time.Minute, []record.Sample{{Time: ms(600), Namespace: "shop", Name: "web", MilliCPU: 500, Memory: 1 << 20}}},
		{0, []record.Sample{{Time: ms(0), Namespace: "shop", Name: "web", Memory: 1 << 20}}}, // no rate yet
	} {
		got, err := Measure(t.Context(), ask, t0.Add(c.after))
		if d := cmp.Diff(Measured{Samples: c.want}, got); err != nil || d != "" {
			t.Errorf("after %v: %v, %s", c.after, err, d)
		}
	}
}

// values answers each query with values of pods by name; nodes have none.
type values map[string]float64

func (v values) Query(_ context.Context, query string, _ time.Time) (out model.Vector, _ error) {
	if query != usageQueries[0].cpu {
		return nil, nil
	}
	for name, x := range v {
		out = append(out, &model.Sample{Metric: model.Metric{"namespace": "a", "pod": model.LabelValue(name)}, Value: model.SampleValue(x), Timestamp: 7})
	}
	return out, nil
}

func (values) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("not an instant")
}

func TestMeasureLeavesOut(t *testing.T) {
	got, err := Measure(t.Context(), values{"good": 0.25, "nan": math.NaN(), "negative": -1, "infinite": math.Inf(1), "huge": 1e300, "": 1}, t0)
	want := Measured{Invalid: 3, Samples: []record.Sample{{Time: ms(0), Namespace: "a", Name: "good", MilliCPU: 250}, {Time: ms(0), Namespace: "a", Name: "huge", MilliCPU: 10_000_000}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v, %s", err, d)
	}
	if _, err := Measure(t.Context(), values{}, t0); err == nil {
		t.Error("no usage at all is no error")
	}
}
