package web

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	measured "gnnsched/scheduler/usage"
)

// scored is a report of usage that lacks one node.
var scored = []measured.Report{{
	Source: "prometheus", Polled: noon.Unix(), Newest: noon.Unix() - 12, Measured: 2, Degraded: 1,
	Named: []measured.Degraded{{Node: hostile, Reason: "stale"}},
}}

// A page gets the basis for scoring the nodes, unless nothing is measured.
func TestUsage(t *testing.T) {
	s := newTestServer(t, config{Usage: func() []measured.Report { return scored }}, nil)
	var got []measured.Report
	if err := json.Unmarshal([]byte(s.open(t).next(topicUsage)), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(scored, got); d != "" {
		t.Error(d)
	}
	for name, reports := range map[string]func() []measured.Report{"none": nil, "no source": func() []measured.Report { return nil }} {
		s := newServer(config{Usage: reports})
		s.publishUsage()
		if fresh, _ := s.feed.since(map[string]int{}); len(fresh) != 0 {
			t.Errorf("%s: %q", name, fresh)
		}
	}
}
