package eventsink

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// server is an events.EventSink that notes its requests.
type server struct {
	takes time.Duration              // of each request
	fail  func(request string) error // nil: none

	mu       sync.Mutex
	requests []string
}

func (s *server) serve(ctx context.Context, verb string, e *eventsv1.Event) (*eventsv1.Event, error) {
	request := verb + " " + e.Name
	if e.Series != nil {
		request += fmt.Sprintf(" x%d", e.Series.Count)
	}
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if s.fail != nil {
		return e, s.fail(request)
	}
	return e, nil
}

func (s *server) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return s.serve(ctx, "create", e)
}
func (s *server) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return s.serve(ctx, "update", e)
}
func (s *server) Patch(ctx context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.serve(ctx, "patch", e)
}

func (s *server) saw() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func event(name string, count int32) *eventsv1.Event {
	e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if count > 1 {
		e.Series = &eventsv1.EventSeries{Count: count}
	}
	return e
}

// running starts a sink in front of a server for the rest of a bubble, which stop ends.
func running(srv *server) (s *sink, dropped *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	dropped = new(atomic.Int64)
	s = newSink(srv, func() { dropped.Add(1) })
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return s, dropped, func() { cancel(); <-done }
}

func TestSinkNeverWaitsAndJoinsWhatItHasNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Minute / 3}
		s, dropped, stop := running(srv)
		defer stop()
		began := time.Now()
		for i := range writers { // they keep the writers busy
			s.Create(t.Context(), event(fmt.Sprint("busy", i), 1))
		}
		synctest.Wait()
		s.Create(t.Context(), event("a", 1))
		s.Patch(t.Context(), event("a", 2), []byte("{}"))
		s.Patch(t.Context(), event("a", 3), []byte("{}"))
		if took := time.Since(began); took != 0 {
			t.Errorf("the sink waited for %v", took)
		}
		time.Sleep(time.Minute)
		s.Patch(t.Context(), event("a", 4), []byte("{}"))
		time.Sleep(time.Minute)
		if got, want := srv.saw()[writers:], []string{"create a x3", "patch a x4"}; !slices.Equal(got, want) {
			t.Errorf("requests %q, want %q", got, want)
		}
		if n := dropped.Load(); n != 0 {
			t.Errorf("%d dropped", n)
		}
	})
}

func TestSinkHandlesFailures(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "a")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "a", errors.New("no"))
	unreachable := errors.New("connection refused")
	for name, c := range map[string]struct {
		patch   bool
		answers []error // of the first requests; then nil
		want    []string
		dropped int64
	}{
		"created":                     {want: []string{"create a"}},
		"refused":                     {answers: []error{refused}, want: []string{"create a"}},
		"unreachable":                 {answers: []error{unreachable, unreachable}, want: []string{"create a", "create a", "create a"}},
		"series of a forgotten event": {patch: true, answers: []error{gone}, want: []string{"patch a x2", "create a x2"}},
		"gone for good": {answers: slices.Repeat([]error{unreachable}, 100), want: slices.Repeat([]string{"create a"}, tries),
			dropped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, n := &server{}, 0
				srv.fail = func(string) (err error) {
					if n < len(c.answers) {
						err = c.answers[n]
					}
					n++
					return err
				}
				s, dropped, stop := running(srv)
				defer stop()
				if c.patch {
					s.Patch(t.Context(), event("a", 2), []byte("{}"))
				} else {
					s.Create(t.Context(), event("a", 1))
				}
				time.Sleep(time.Hour)
				if got, n := srv.saw(), dropped.Load(); !slices.Equal(got, c.want) || n != c.dropped {
					t.Errorf("requests %q and %d dropped, want %q and %d", got, n, c.want, c.dropped)
				}
			})
		})
	}
}

// A change that comes while an earlier one is written is not lost, and not written before it.
func TestSinkKeepsTheOrderOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		srv := &server{takes: time.Second, fail: func(string) error {
			if !failed {
				failed = true
				return errors.New("connection reset")
			}
			return nil
		}}
		s, _, stop := running(srv)
		defer stop()
		s.Create(t.Context(), event("a", 1))
		time.Sleep(time.Second / 2) // the first request is under way, and will fail
		s.Patch(t.Context(), event("a", 2), []byte("{}"))
		time.Sleep(time.Minute)
		if got, want := srv.saw(), []string{"create a", "create a x2"}; !slices.Equal(got, want) {
			t.Errorf("requests %q, want %q", got, want)
		}
	})
}

func TestSinkDropsWhatItHasNoRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Hour}
		dropped := 0
		s := newSink(srv, func() { dropped++ })
		for i := range limit + 5 {
			s.Create(t.Context(), event(fmt.Sprint(i), 1))
		}
		s.Patch(t.Context(), event("0", 2), []byte("{}")) // of one that waits: it takes no room
		if dropped != 5 || len(s.pending) != limit {
			t.Errorf("%d dropped and %d waiting, want 5 and %d", dropped, len(s.pending), limit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Run(ctx)
	})
}

// With upstream's sink the events of this test pile up from the twelfth minute on, each with a goroutine:
// upstream's broadcaster then writes the hundreds of series that have ended, and locks itself meanwhile.
func TestEventsDoNotPileUpWhileSeriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		srv := &server{takes: time.Second}
		s, dropped, stop := running(srv)
		b := events.NewBroadcaster(s)
		recording, end := context.WithCancel(t.Context())
		if err := b.StartRecordingToSinkWithContext(recording); err != nil {
			t.Fatal(err)
		}
		recorder := b.NewRecorder(scheme.Scheme, "test")
		most, pods := 0, int((20 * time.Minute).Seconds())
		for i := range pods {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i), UID: "1"}}
			for range 2 {
				recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "no room")
				synctest.Wait()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			most = max(most, runtime.NumGoroutine()-before)
		}
		time.Sleep(10 * time.Minute)
		if most > 30 {
			t.Errorf("up to %d goroutines", most)
		}
		if created := len(srv.saw()); created < pods || dropped.Load() != 0 {
			t.Errorf("%d requests for %d pods, %d events dropped", created, pods, dropped.Load())
		}
		end()
		stop()
		b.Shutdown()
	})
}
