package web

import (
	"context"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/scheduler/plugin/learningcurve"
)

// metrics returns the metrics of a learning scheduler that has sent the given number of steps.
func metrics(sent float64) []*dto.MetricFamily {
	label := func(pairs ...string) (out []*dto.LabelPair) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, &dto.LabelPair{Name: proto.String(pairs[i]), Value: proto.String(pairs[i+1])})
		}
		return out
	}
	return []*dto.MetricFamily{
		{Name: proto.String("gnnsched_learning_steps_total"),
			Metric: []*dto.Metric{{Label: label("profile", "gnn", "result", "sent"), Counter: &dto.Counter{Value: proto.Float64(sent)}}}},
		{Name: proto.String("gnnsched_trainer_placements_total"),
			Metric: []*dto.Metric{{Label: label("profile", "gnn", "result", "read"), Counter: &dto.Counter{Value: proto.Float64(sent)}}}},
		{Name: proto.String("gnnsched_trainer_figure"), Metric: []*dto.Metric{
			{Label: label("profile", "gnn", "figure", "loss"), Gauge: &dto.Gauge{Value: proto.Float64(1 / sent)}},
			{Label: label("profile", "gnn", "figure", "score"), Gauge: &dto.Gauge{Value: proto.Float64(1.25)}},
			{Label: label("profile", "gnn", "figure", "score_limit"), Gauge: &dto.Gauge{Value: proto.Float64(1.5)}},
			{Label: label("profile", "gnn", "figure", hostile), Gauge: &dto.Gauge{Value: proto.Float64(1)}},
		}},
	}
}

// taught is a sampler with n samples; each sent ten steps more.
func taught(t *testing.T, n int) *learningcurve.Sampler {
	t.Helper()
	clock := clocktesting.NewFakeClock(noon)
	sent := 0.0
	c := learningcurve.New(func() ([]*dto.MetricFamily, error) { sent += 10; return metrics(sent), nil }, clock)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	for i := range n {
		waitUntil(t, func() bool { return len(c.Samples().Times) == i+1 && clock.HasWaiters() })
		if i < n-1 {
			clock.Step(10 * time.Second)
		}
	}
	cancel()
	running.Wait()
	return c
}

// A scheduler that does not learn says nothing of it.
func TestNotLearning(t *testing.T) {
	for name, c := range map[string]*learningcurve.Sampler{"none": nil, "without samples": learningcurve.New(nil, nil)} {
		s := newServer(config{Curves: c})
		s.publishLearning()
		if fresh, _ := s.feed.since(map[string]int{}); len(fresh) != 0 {
			t.Errorf("%s: %q", name, fresh)
		}
	}
}
