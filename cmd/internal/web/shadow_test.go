package web

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"gnnsched/scheduler/shadow"
)

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
	l, err := watched(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
		if err := json.Unmarshal([]byte(stream.next(topicShadow)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Counts.Compared != compared || got.Verdict.Answer != "not worth it" || len(got.Recent) != 2 || got.Recent[0].Node != "node-2" ||
			len(got.Course) != 2 {
			t.Errorf("%+v", got)
		}
	}
}
