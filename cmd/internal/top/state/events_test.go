package state

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

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
