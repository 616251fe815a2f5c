package web

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
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
		fatal.UntilTrue(t, "it to be so", func() bool { return len(c.Samples().Times) == i+1 && clock.HasWaiters() })
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

// watched returns the findings of a scheduler in the shadow.
func watched(context.Context) (shadow.Live, error) {
	var l shadow.Live
	err := json.Unmarshal([]byte(`{
		"profile": "gnn", "of": ["default-scheduler"], "objective": "balance", "from": "2026-11-23T11:00:00Z", "to": "2026-11-23T12:00:00Z",
		"results": [{"what": "same", "text": "the same node", "pods": 9, "share": 0.23}, {"what": "different", "text": "another node", "pods": 30, "share": 0.77}, {"what": "unschedulable", "text": "no node fits", "fails": true, "pods": 1, "share": 0.025}], "agreement": 0.23,
		"counts": {"bound": 41, "compared": 40, "results": {"same": 9, "different": 30, "unschedulable": 1}, "waitingOurs": 1}, "oneStep": {"better": 5, "equal": 20, "worse": 5},
		"time": {"median": 0.0005, "p99": 0.0021, "max": 0.1}, "whole": {"seconds": 3600, "theirs": 0.2, "ours": 0.25}, "gain": {"mean": -0.05, "low": -0.09, "high": -0.01},
		"verdict": {"answer": "not worth it", "why": ["the cost would be higher"]}, "course": [{"seconds": 60, "theirs": 0.1, "ours": 0.1}, {"seconds": 60, "theirs": 0.2, "ours": 0.3}]}`), &l)
	l.Recent = []shadow.Comparison{
		{Time: noon, Pod: "shop/" + hostile, What: "different", Theirs: "node-1", Node: "node-2", Gained: -0.0125, Took: 0.0015},
		{Time: noon.Add(-time.Second), Pod: "shop/big", What: "unschedulable", Theirs: "node-1", Why: "3 Insufficient cpu", Took: 0.0005},
	}
	return l, err
}

// A page of a shadow scheduler gets its findings at once and again when they change. A watcher that does not answer delays nothing else on
// the page.
func TestShadow(t *testing.T) {
	asked := make(chan shadow.Live)
	s := newTestServer(t, config{Shadow: func(ctx context.Context) (shadow.Live, error) {
		select {
		case l := <-asked:
			return l, nil
		case <-ctx.Done():
			return shadow.Live{}, ctx.Err()
		case <-time.After(time.Millisecond):
			return shadow.Live{}, errors.New("it works off events")
		}
	}}, frozen{frame: frameOf(2)})
	stream := s.open(t)
	stream.next(topicCluster)
	l := fatal.Value(watched(t.Context()))(t)
	for _, compared := range []int{40, 41} {
		l.Counts.Compared = compared
		for sent := false; !sent; {
			s.clock.Step(tick)
			select {
			case asked <- l:
				sent = true
			case <-time.After(time.Millisecond):
			}
		}
		var got shadow.Live
		fatal.If(t, json.Unmarshal([]byte(stream.next(topicShadow)), &got))
		if got.Counts.Compared != compared || got.Verdict.Answer != "not worth it" || len(got.Recent) != 2 || got.Recent[0].Node != "node-2" ||
			len(got.Course) != 2 {
			t.Errorf("%+v", got)
		}
	}
}
