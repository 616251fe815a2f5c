package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/scheduler/decision"
)

// The details of a pod hold its place, its events, and the newest decision about it of all schedulers, or the decision that was
// asked for; each decision is explained once.
func TestPodDetails(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := begin
	event := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Reason: "Scheduled",
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
	}
	one, two, explained := &bookAsker{book: decision.NewBook(10, nil)}, &bookAsker{book: decision.NewBook(10, nil)}, 0
	s, err := Start(t.Context(), Config{
		Client: fake.NewClientset(apiNode("a", nil), apiPod("p", "a"), event), Servers: []Server{{"one", one}, {"two", two}},
		Now:     func() time.Time { return now },
		Explain: func(r decision.Record) (string, error) { explained++; return fmt.Sprint("number ", r.Number), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	ask := Ask{Pod: PodAsk{Namespace: "default", Name: "p"}}
	if p := s.Details(ask).Pod; !p.Found || p.Node != "a" || len(p.Events) != 1 || p.Decision != nil || p.DecisionErr != nil {
		t.Errorf("before a decision: %+v", p)
	}
	for i, of := range []*bookAsker{two, one, two} {
		of.book.Decided(decision.Decision{
			Number: uint64(i), Pod: decision.Pod{Namespace: "default", Name: "p"}, At: begin.Add(time.Duration(i) * time.Second), Node: "a",
		})
	}
	for range 3 {
		now = now.Add(podInterval)
		if p := s.Details(ask).Pod; p.Decision == nil || p.Explained != "number 2" || explained != 1 {
			t.Errorf("%q, explained %d times", p.Explained, explained)
		}
	}
	old := &decision.Record{Number: 7, Namespace: "default", Pod: "p"}
	if p := s.Details(Ask{Pod: PodAsk{Namespace: "default", Name: "p", Decision: old}}).Pod; p.Explained != "number 7" {
		t.Errorf("of an older decision: %q", p.Explained)
	}
	one.err, two.err = errors.New("away"), errors.New("away")
	p := s.Details(Ask{Pod: PodAsk{Namespace: "default", Name: "gone"}}).Pod
	if p.Found || p.Decision != nil || p.Explained != "" || p.DecisionErr == nil || !strings.Contains(p.DecisionErr.Error(), "two: away") {
		t.Errorf("of a pod that is not there: %+v", p)
	}
}
