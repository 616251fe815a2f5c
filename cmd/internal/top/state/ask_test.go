package state

import (
	"context"
	"errors"
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

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
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
	asker := &bookAsker{book: decision.NewBook(decision.AnswerSize, nil)}
	s, err := Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil), apiPod("p", "a")), Servers: []Server{{Asker: asker}}})
	fatal.If(t, err)
	defer s.Stop()
	total := 0
	decide := func(n int) {
		for range n {
			total++
			asker.book.Decided(decision.Decision{Number: uint64(total), Pod: decision.Pod{Name: fmt.Sprint("p-", total)}, Node: "a"})
		}
	}
	ask := Ask{Decisions: true}
	for _, n := range []int{0, 3, 0, 7, decision.AnswerSize, 2, 100} {
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
	for range decision.Kept/decision.AnswerSize + 1 {
		decide(decision.AnswerSize)
		s.Details(ask)
	}
	if d := s.Details(ask); len(d.Decisions) != decision.Kept || d.Decisions[0].Number != uint64(total) {
		t.Errorf("%d decisions are kept, want %d", len(d.Decisions), decision.Kept)
	}
}

// However many attempts fail between two answers, and in how many answers, placements stay and nothing is kept twice.
func TestFailuresHideNoPlacement(t *testing.T) {
	asker, number := &bookAsker{book: decision.NewBook(2048, nil)}, uint64(0)
	l := &decisionLog{asker: asker}
	decide := func(n int, node string) {
		for range n {
			number++
			asker.book.Decided(decision.Decision{Number: number, Pod: decision.Pod{Name: fmt.Sprint("p-", number)}, Node: node})
		}
	}
	decide(200, "a")
	for range 9 {
		decide(400, "")
		decide(1, "a")
		kept := fatal.Value(l.last(t.Context()))(t)
		placed, numbers := 0, map[uint64]bool{}
		for _, d := range kept {
			numbers[d.Number] = true
			if d.Node != "" {
				placed++
			}
		}
		if placed < 150 || len(numbers) != len(kept) || len(kept) > decision.Kept || kept[0].Number != number {
			t.Fatalf("%d kept, %d of them different, %d placements, the newest is %d of %d", len(kept), len(numbers), placed, kept[0].Number, number)
		}
	}
}

// Decisions of several schedulers are one list by time. A scheduler that does not answer is named, and the others' decisions stay.
func TestSeveralServers(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one, two := &bookAsker{book: decision.NewBook(10, nil)}, &bookAsker{book: decision.NewBook(10, nil)}
	s, err := Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil)), Servers: []Server{{"one", one}, {"two", two}}})
	fatal.If(t, err)
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
	s := fatal.Value(Start(t.Context(), Config{Client: fake.NewClientset(apiNode("a", nil), apiPod("p", "a"), apiPod("q", "b"))}))(t)
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
	fatal.If(t, err)
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
	names := each.Map(c.PodsOn("a"), func(p ListedPod) string { return p.Name })
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
	for i := range decision.AnswerSize + 9 {
		set(fmt.Sprint("many-", i), "a", "stock", noon, noon)
	}
	if p := c.Placed()[0]; p.Bound != decision.AnswerSize+12 || p.Most != decision.AnswerSize+11 || len(p.Last) != decision.AnswerSize || p.Last[0].Pod != "second" {
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
	s := fatal.Value(Start(t.Context(), Config{Client: client, Now: func() time.Time { return now }}))(t)
	defer s.Stop()
	look := func() (string, error) {
		d := s.Details(Ask{Events: true})
		objects := each.Map(d.Events, func(e Event) string { return e.Object })
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
