package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

// bookAsker answers from a book, as a scheduler does, or with an error.
type bookAsker struct {
	book  *decision.Book
	err   error
	asked int // how often about learning
}

func (a *bookAsker) Last(_ context.Context, q decision.Query) ([]decision.Record, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.book.Last(q), nil
}

func (a *bookAsker) Learning(context.Context) (learningcurve.Samples, error) {
	a.asked++
	return learningcurve.Samples{Times: []int64{int64(a.asked)}}, a.err
}

func (a *bookAsker) Shadow(context.Context) (shadow.Live, error) {
	return shadow.Live{Agreement: 0.5}, a.err
}

// After its interval, an answer is requested again. The last one stays during an outage.
func TestAnswerIsKept(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	asker := &bookAsker{}
	l := answer[learningcurve.Samples]{ask: asker.Learning, every: learningInterval, now: func() time.Time { return now }}
	for i, c := range []struct {
		after time.Duration
		err   error
		want  int64 // the time of the sample
	}{
		{0, nil, 1}, {time.Second, nil, 1}, {4 * time.Second, nil, 2}, {5 * time.Second, errors.New("away"), 2},
		{time.Second, errors.New("away"), 2}, {4 * time.Second, nil, 4},
	} {
		now, asker.err = now.Add(c.after), c.err
		s, err := l.last(t.Context())
		if len(s.Times) != 1 || s.Times[0] != c.want || (err == nil) != (c.err == nil) {
			t.Errorf("question %d: %v, %v, want %d", i, s.Times, err, c.want)
		}
	}
}

// TestDecisionsAreKept: every decision is kept once, newest first, over several answers and an outage, up to a limit.
func TestDecisionsAreKept(t *testing.T) {
	asker := &bookAsker{book: decision.NewBook(askedDecisions, nil)}
	s, err := Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil), apiPod("p", "a")), Servers: []Server{{Asker: asker}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	total := 0
	decide := func(n int) {
		for range n {
			total++
			asker.book.Decided(decision.Decision{Number: uint64(total), Pod: decision.Pod{Name: fmt.Sprint("p-", total)}, Node: "a"})
		}
	}
	ask := Ask{Decisions: true}
	for _, n := range []int{0, 3, 0, 7, askedDecisions, 2, 100} {
		decide(n)
		d := s.Details(ask)
		if len(d.Decisions) != total || d.Silent != nil {
			t.Fatalf("%d decisions of %d, %v", len(d.Decisions), total, d.Silent)
		}
		for i, r := range d.Decisions {
			if r.Number != uint64(total-i) {
				t.Fatalf("at %d of %d: number %d", i, total, r.Number)
			}
		}
	}
	asker.err = errors.New("away")
	if d := s.Details(ask); len(d.Decisions) != total || len(d.Silent) != 1 || !errors.Is(d.Silent[0].Err, asker.err) {
		t.Errorf("during an outage: %d of %d, %v", len(d.Decisions), total, d.Silent)
	}
	asker.err = nil
	for range keptDecisions/askedDecisions + 1 {
		decide(askedDecisions)
		s.Details(ask)
	}
	if d := s.Details(ask); len(d.Decisions) != keptDecisions || d.Decisions[0].Number != uint64(total) {
		t.Errorf("%d decisions are kept, want %d", len(d.Decisions), keptDecisions)
	}
}

// Decisions of several schedulers are one list by time. A scheduler that does not answer is named, and the others' decisions stay.
func TestSeveralServers(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one, two := &bookAsker{book: decision.NewBook(10, nil)}, &bookAsker{book: decision.NewBook(10, nil)}
	s, err := Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil)), Servers: []Server{{"one", one}, {"two", two}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	for i := range 6 {
		of := []*bookAsker{one, two}[i%2]
		of.book.Decided(decision.Decision{
			Number: uint64(i), Profile: "gnn", Pod: decision.Pod{Name: fmt.Sprint("p-", i)}, At: begin.Add(time.Duration(i) * time.Second),
			Node: "a",
		})
	}
	list := func() (out string) {
		d := s.Details(Ask{Decisions: true})
		for _, r := range d.Decisions {
			out += r.Server + ":" + r.Pod + " "
		}
		for _, x := range d.Silent {
			out += x.Server + " " + x.Err.Error()
		}
		return out
	}
	const all = "two:p-5 one:p-4 two:p-3 one:p-2 two:p-1 one:p-0 "
	if got := list(); got != all {
		t.Error(got)
	}
	two.err = errors.New("away")
	one.book.Decided(decision.Decision{Number: 6, Profile: "gnn", Pod: decision.Pod{Name: "p-6"}, At: begin.Add(time.Minute), Node: "a"})
	if got := list(); got != "one:p-6 "+all+"two away" {
		t.Error(got)
	}
	for i, want := range []error{nil, two.err, errNoScheduler} {
		d := s.Details(Ask{Learning: true, Shadow: true, Server: i})
		if !errors.Is(d.LearningErr, want) || !errors.Is(d.ShadowErr, want) || d.Silent != nil {
			t.Errorf("server %d: %v, %v", i, d.LearningErr, d.ShadowErr)
		}
	}
	if one.asked != 1 || two.asked != 1 {
		t.Errorf("asked %d and %d times", one.asked, two.asked)
	}
}

func TestDetailsOfTheCluster(t *testing.T) {
	s, err := Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil), apiPod("p", "a"), apiPod("q", "b"))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	d := s.Details(Ask{Node: "a", Decisions: true})
	if d.Node != "a" || len(d.Pods) != 1 || d.Pods[0].Name != "p" {
		t.Errorf("got %+v", d)
	}
	if len(d.Silent) != 1 || !errors.Is(d.Silent[0].Err, errNoScheduler) {
		t.Errorf("without a scheduler: %v", d.Silent)
	}
	if d := s.Details(Ask{Learning: true, Shadow: true}); !errors.Is(d.LearningErr, errNoScheduler) ||
		!errors.Is(d.ShadowErr, errNoScheduler) {
		t.Errorf("without a scheduler: %v, %v", d.LearningErr, d.ShadowErr)
	}
	if d := s.Details(Ask{}); d.Pods != nil || d.Silent != nil {
		t.Errorf("nothing asked: %+v", d)
	}
}

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
