package web

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"
)

// metric returns a metric with labels given as name, value.
func metric(value float64, gauge bool, labels ...string) *dto.Metric {
	m := &dto.Metric{}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(labels[i]), Value: proto.String(labels[i+1])})
	}
	if gauge {
		m.Gauge = &dto.Gauge{Value: proto.Float64(value)}
	} else {
		m.Counter = &dto.Counter{Value: proto.Float64(value)}
	}
	return m
}

// The course of learning is sampled from the metrics, for profiles that learn, and bounded.
func TestLearning(t *testing.T) {
	var sent atomic.Int64 // the server reads it in a goroutine of its own
	gather := func() ([]*dto.MetricFamily, error) {
		sent := float64(sent.Add(10))
		return []*dto.MetricFamily{
			{Name: proto.String("gnnsched_epsilon"), Metric: []*dto.Metric{metric(0.25, true, "profile", "gnn")}},
			{Name: proto.String("gnnsched_learning_steps_total"), Metric: []*dto.Metric{metric(sent, false, "profile", "gnn", "result", "sent"), metric(2, false, "profile", "gnn", "result", "dropped")}},
			{Name: proto.String("gnnsched_checkpoint_loads_total"), Metric: []*dto.Metric{
				metric(5, false, "profile", "gnn", "result", "ok"), metric(7, false, "profile", "gnn", "result", "error"), metric(9, false, "profile", "default", "result", "ok"),
			}},
			{Name: proto.String("process_cpu_seconds_total"), Metric: []*dto.Metric{metric(1, false)}},
		}, nil
	}
	s := newTestServer(t, config{Gather: gather}, nil)
	var got []sample
	read := func() {
		if err := json.Unmarshal([]byte(s.open(t).next(topicLearning)), &got); err != nil {
			t.Fatal(err)
		}
	}
	read()
	p := got[0].Profiles["gnn"]
	if len(got) != 1 || len(got[0].Profiles) != 1 || p.Sent != 10 || p.Dropped != 2 || p.Loads != 5 || p.Epsilon == nil || *p.Epsilon != 0.25 || !got[0].Time.Equal(noon) {
		t.Errorf("%+v", got)
	}
	clock := clocktesting.NewFakeClock(noon)
	other := newServer(config{Gather: gather, Clock: clock})
	for range mostSamples + 5 {
		other.publishLearning()
		clock.Step(time.Second)
	}
	if n := len(other.course.samples); n != mostSamples {
		t.Errorf("%d samples are kept", n)
	}
}

// A scheduler that does not learn says nothing of it.
func TestNotLearning(t *testing.T) {
	s := newServer(config{Gather: func() ([]*dto.MetricFamily, error) { return nil, nil }})
	s.publishLearning()
	if fresh, _ := s.feed.since(map[string]int{}); len(fresh) != 0 {
		t.Errorf("%q", fresh)
	}
}
