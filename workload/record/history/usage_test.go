package history

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
)

// everything knows all pods, and nodes by their names.
type everything struct{}

func (everything) Pod(_, name string) bool    { return name != "other" }
func (everything) Node(names []string) string { return names[0] }

// A measurement at one time equals the history's at that time. A container that was scraped once has no rate.
func TestMeasure(t *testing.T) {
	ask := clientOf(t, historytest.Server(t, nil).URL)
	for after, want := range map[time.Duration]Measured{
		10 * time.Minute: {Unknown: map[string]bool{}, Samples: []record.Sample{
			{Time: ms(600), Name: "10.0.0.1:10250", MilliCPU: 1000, Memory: 1 << 30},
			{Time: ms(600), Namespace: "shop", Name: "web", MilliCPU: 500, Memory: 1 << 20}}},
		0: {Unknown: map[string]bool{}, Single: 2},
	} {
		got, err := Measure(t.Context(), ask, t0.Add(after), everything{})
		if d := cmp.Diff(want, got, cmpSamples); err != nil || d != "" {
			t.Errorf("after %v: %v, %s", after, err, d)
		}
	}
}

var cmpSamples = cmpopts.SortSlices(func(a, b record.Sample) bool { return a.Name < b.Name })

// values answers each query of pods with values by their names; nodes have none.
type values map[string]float64

func (v values) Query(_ context.Context, query string, _ time.Time) (out model.Vector, _ error) {
	if query != usageQueries[0].cpu && query != usageQueries[0].memory {
		return nil, nil
	}
	for name, x := range v {
		out = append(out, &model.Sample{
			Metric: model.Metric{"namespace": "a", "pod": model.LabelValue(name), "container": "c"}, Value: model.SampleValue(x), Timestamp: 7,
		})
	}
	return out, nil
}

func (values) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("not an instant")
}

func TestMeasureLeavesOut(t *testing.T) {
	got, err := Measure(t.Context(),
		values{"good": 0.25, "nan": math.NaN(), "negative": -1, "infinite": math.Inf(1), "huge": 1e300, "": 1, "other": 1}, t0, everything{})
	want := Measured{Invalid: 3, Unknown: map[string]bool{"pod a/other": true}, Samples: []record.Sample{
		{Time: ms(0), Namespace: "a", Name: "good", MilliCPU: 250},
		{Time: ms(0), Namespace: "a", Name: "huge", MilliCPU: 10_000_000, Memory: 1 << 44},
	}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v, %s", err, d)
	}
	if _, err := Measure(t.Context(), values{}, t0, everything{}); err == nil {
		t.Error("no usage at all is no error")
	}
}
