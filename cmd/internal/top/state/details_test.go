package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

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

// TestEvents: events of both forms are sorted by their last time, listed again only after a while, and kept during an outage.
func TestEvents(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	event := func(name string, change func(*v1.Event)) *v1.Event {
		e := &v1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: "Warning", Reason: "Failed\x1b[2J", Message: "a\nb",
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: name},
		}
		change(e)
		return e
	}
	client := fake.NewClientset(
		event("old", func(e *v1.Event) {
			e.LastTimestamp, e.Count, e.Source.Component = metav1.NewTime(now.Add(-time.Hour)), 7, "kubelet"
		}),
		event("new", func(e *v1.Event) {
			e.EventTime, e.ReportingController = metav1.NewMicroTime(now.Add(-time.Minute)), "gnn"
		}),
		event("series", func(e *v1.Event) {
			e.EventTime = metav1.NewMicroTime(now.Add(-2 * time.Hour))
			e.Series = &v1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(now)}
		}),
		event("node", func(e *v1.Event) {
			e.CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Hour))
			e.InvolvedObject = v1.ObjectReference{Kind: "Node", Name: "a"}
		}),
	)
	lists, down := 0, false
	client.PrependReactor("list", "events", func(ktesting.Action) (bool, runtime.Object, error) {
		lists++
		if down {
			return true, nil, refused
		}
		return false, nil, nil
	})
	s, err := Start(t.Context(), Config{Client: client, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	look := func() (string, error) {
		d := s.Details(Ask{Events: true})
		var objects []string
		for _, e := range d.Events {
			objects = append(objects, e.Object)
		}
		return strings.Join(objects, ", "), d.EventsErr
	}
	const want = "Pod shop/series, Pod shop/new, Pod shop/old, Node a"
	for range 3 {
		if got, err := look(); got != want || err != nil {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	if lists != 1 {
		t.Errorf("%d lists at one time", lists)
	}
	e := s.Details(Ask{Events: true}).Events
	if e[0].Count != 3 || e[2].Count != 7 || e[3].Count != 1 || e[1].From != "gnn" || e[2].From != "kubelet" ||
		e[0].Reason != "Failed [2J" || e[0].Message != "a b" {
		t.Errorf("got %+v", e)
	}
	down, now = true, now.Add(eventsInterval)
	if got, err := look(); got != want || err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("during an outage: %s, %v", got, err)
	}
	if lists != 2 {
		t.Errorf("%d lists, want 2", lists)
	}
}
