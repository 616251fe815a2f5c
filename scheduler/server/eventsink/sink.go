// Package eventsink writes a scheduler's events to the API server in the background, with bounded memory.
//
// client-go's event broadcaster starts a goroutine for each event and holds one lock while it writes every
// series of events that has ended, every six minutes. Until the last is written, all new events wait, each
// with its goroutine, and Go keeps the memory of the most goroutines that ever existed. The sink here takes events
// without waiting, so the lock is never held during a request. It writes what it took in goroutines of its own,
// and replaces what it has not written yet when a series grows meanwhile.
package eventsink

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	writers = 4     // requests at the same time
	limit   = 10000 // events that wait; with their pods' names and messages, about 15 MB
	tries   = 12    // as upstream's recorder

	firstRetry = time.Second // doubled after each failure
	lastRetry  = 10 * time.Second

	writeWithin = 30 * time.Second // the time of one request
)

// sink takes events for the API server. Its methods return at once; Run writes.
type sink struct {
	server  events.EventSink // writes at once
	dropped func()
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	pending map[types.NamespacedName]change
}

// change is an event, or a growth of its series, that the API server does not have yet.
type change struct {
	event *eventsv1.Event
	patch []byte // nil: the event does not exist yet
}

// newSink returns a sink in front of another. It calls dropped for each event that it gives up: 10,000 others
// wait already, or the server could not be reached 12 times.
func newSink(server events.EventSink, dropped func()) *sink {
	return &sink{
		server: server, dropped: dropped, pending: map[types.NamespacedName]change{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry,
			lastRetry)),
	}
}

// Create implements [events.EventSink]. The event must not change afterwards.
func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.put(change{event: e})
	return e, nil
}

// Update implements [events.EventSink]. Upstream's broadcaster does not call it.
func (s *sink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, errors.New("an event is created or patched, not updated")
}

// Patch implements [events.EventSink].
func (s *sink) Patch(_ context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	s.put(change{event: e.DeepCopy(), patch: patch})
	return e, nil
}

// put keeps a change until it is written.
func (s *sink) put(c change) {
	key := types.NamespacedName{Namespace: c.event.Namespace, Name: c.event.Name}
	if !s.keep(key, c) {
		s.dropped()
		return
	}
	s.queue.Add(key)
}

func (s *sink) keep(key types.NamespacedName, c change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, waits := s.pending[key]
	if !waits && len(s.pending) >= limit {
		return false
	}
	if waits && before.patch == nil {
		c.patch = nil // the event is created with what it became
	}
	s.pending[key] = c
	return true
}

// take returns what there is to write of an event.
func (s *sink) take(key types.NamespacedName) (change, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, waits := s.pending[key]
	delete(s.pending, key)
	return c, waits
}

// giveBack keeps a change that could not be written, unless a later one came, which then covers it.
func (s *sink) giveBack(key types.NamespacedName, c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	later, came := s.pending[key]
	if came {
		if c.patch == nil {
			later.patch = nil
		}
		c = later
	}
	s.pending[key] = c
}

// Run writes until ctx ends. What waits then is lost, as with upstream's recorder.
func (s *sink) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for s.writeNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	running.Wait()
}

// writeNext waits for an event and writes it. It returns false when the queue is shut down.
func (s *sink) writeNext(ctx context.Context) bool {
	key, ended := s.queue.Get()
	if ended {
		return false
	}
	defer s.queue.Done(key)
	c, waits := s.take(key)
	if !waits || s.write(ctx, c) {
		s.queue.Forget(key)
		return true
	}
	if s.queue.NumRequeues(key)+1 >= tries {
		s.queue.Forget(key)
		s.dropped()
		return true
	}
	s.giveBack(key, c)
	s.queue.AddRateLimited(key)
	return true
}

// write writes one change. It returns false if another try may succeed.
func (s *sink) write(ctx context.Context, c change) bool {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	var err error
	if c.patch != nil {
		_, err = s.server.Patch(ctx, c.event, c.patch)
	}
	if c.patch == nil || apierrors.IsNotFound(err) { // events have a time to live
		e := *c.event
		e.ResourceVersion = ""
		_, err = s.server.Create(ctx, &e)
	}
	if err == nil {
		return true
	}
	if refused := apierrors.APIStatus(nil); !errors.As(err, &refused) {
		return false // a request that did not arrive, or had no answer
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		klog.FromContext(ctx).Error(err, "The server refused an event", "event", klog.KObj(c.event))
	}
	return true
}
