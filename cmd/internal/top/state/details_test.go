package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gnnsched/scheduler/decision"
)

func TestDetails(t *testing.T) {
	c := New()
	c.SetNode(worker("a"))
	for _, p := range []struct{ name, node, workload string }{
		{"web-10", "a", "Deployment/web"}, {"web-9", "a", "Deployment/web"}, {"web-11", "b", "Deployment/web"}, {"web-12", "", "Deployment/web"},
		{"lone", "b", ""}, {"other", "", ""},
	} {
		pod := pod(p.name, p.node, 100, 1<<20)
		pod.Workload, pod.GPU = p.workload, 500
		c.SetPod(pod, noon)
	}
	var names []string
	for _, p := range c.PodsOn("a") {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"web-9", "web-10"}, names); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	want := ListedPod{
		Namespace: "default", Name: "web-9", Node: "a", Workload: "Deployment/web", Scheduler: "gnn", CPU: 100, Memory: 1 << 20, GPU: 500,
	}
	got := c.PodsOn("a")[0]
	if !got.Created.Equal(pod("", "", 0, 0).Created) {
		t.Errorf("created at %v", got.Created)
	}
	got.Created = want.Created
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got := c.PodsOn("nowhere"); got != nil {
		t.Errorf("pods on no node: %v", got)
	}
	if d := cmp.Diff([]Workload{
		{Namespace: "default", Name: "Deployment/web", Bound: 3, Pending: 1, Nodes: 2, CPU: 400, Memory: 4 << 20, GPU: 2000},
		{Namespace: "default", Bound: 1, Pending: 1, Nodes: 1, CPU: 200, Memory: 2 << 20, GPU: 1000},
	}, c.Workloads()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	c.SetPod(Pod{Namespace: "default", Name: "lone", Done: true}, noon)
	c.SetPod(Pod{Namespace: "default", Name: "other", Done: true}, noon)
	if got := c.Workloads(); len(got) != 1 {
		t.Errorf("a workload without pods stays: %v", got)
	}
}

// Placed counts pods by scheduler from the API, the newest first.
func TestPlaced(t *testing.T) {
	c := New()
	set := func(name, node, scheduler string, scheduled, now time.Time) {
		p := pod(name, node, 1, 1)
		p.Scheduler, p.Scheduled = scheduler, scheduled
		c.SetPod(p, now)
	}
	set("old", "a", "stock", time.Time{}, noon)
	set("first", "a", "stock", noon.Add(-time.Minute), noon)
	set("second", "", "stock", time.Time{}, noon)
	set("second", "b", "stock", time.Time{}, noon.Add(time.Second)) // bound while it was watched
	set("second", "b", "stock", noon, noon.Add(time.Hour))          // a change later
	set("ours", "b", "gnn", noon, noon)
	set("waiting", "", "gnn", time.Time{}, noon)
	var got []string
	for _, p := range c.Placed() {
		text := fmt.Sprint(p.Scheduler, " ", p.Bound, " ", p.Nodes, " ", p.Most)
		for _, d := range p.Last {
			if !d.Counted || d.Profile != p.Scheduler || d.Outcome != decision.Bound || d.Namespace != "default" {
				t.Errorf("%+v", d)
			}
			text += " " + d.Pod + ">" + d.Node
			if !d.Time.IsZero() {
				text += "@" + d.Time.UTC().Format(time.TimeOnly)
			}
		}
		got = append(got, text)
	}
	if d := cmp.Diff([]string{"stock 3 2 2 second>b@12:00:01 first>a@11:59:00 old>a", "gnn 1 1 1 ours>b@12:00:00"}, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for i := range lastPlaced + 9 {
		set(fmt.Sprint("many-", i), "a", "stock", noon, noon)
	}
	if p := c.Placed()[0]; p.Bound != lastPlaced+12 || p.Most != lastPlaced+11 || len(p.Last) != lastPlaced || p.Last[0].Pod != "second" {
		t.Errorf("of many: %d, %d, %d listed", p.Bound, p.Most, len(p.Last))
	}
}
