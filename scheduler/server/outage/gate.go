package outage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// askUp and askAway are the times between two questions to a server that answers, and to one that
	// is away.
	askUp   = 5 * time.Second
	askAway = 200 * time.Millisecond
	// patience is the time limit of an answer. A server that hangs is noticed after askUp + patience.
	patience = 10 * time.Second
	// convincing is the number of failures in a row, askAway apart, that make an outage.
	convincing = 6
	// attempts is how often a request is sent to a server that answers everything else.
	attempts = 3
)

// Gate holds the requests of a client while the API server is away. Run must run meanwhile.
type Gate struct {
	ask     func(context.Context) error // returns nil if the server serves requests, a failure if it fails
	log     logr.Logger
	count   func(seconds float64)
	doubted chan struct{} // makes Run ask at once
	ended   chan struct{} // closed when Run has ended

	mu       sync.Mutex
	held     []chan struct{} // each is closed after the next question that the server answers well
	failures int             // in a row; 0 if the last answer was another
	failing  time.Time       // when the first of them was asked for
	since    time.Time       // when the server went away; zero while it answers
	counted  time.Time       // until when the time of this outage has been counted
}

// newGate returns a gate for a server that answers.
func newGate(ask func(context.Context) error, log logr.Logger, count func(seconds float64)) *Gate {
	return &Gate{ask: ask, log: log, count: count, doubted: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Run asks the server whether it answers, until ctx ends. Requests that are held then fail.
func (g *Gate) Run(ctx context.Context) {
	defer close(g.ended)
	timer := time.NewTimer(askUp)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-g.doubted:
		}
		timer.Reset(g.check(ctx))
	}
}

// check asks the server once, and returns the time until the next question.
func (g *Gate) check(ctx context.Context) time.Duration {
	g.mu.Lock()
	waiting := len(g.held) // those that come during the question may have failed after its answer
	g.mu.Unlock()
	began := time.Now()
	answer, cancel := context.WithTimeout(ctx, patience)
	err := g.ask(answer)
	cancel()
	if ctx.Err() != nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if g.since.IsZero() && g.doubtful(began, err) {
			return askAway
		}
		g.away(began, err)
		return askAway
	}
	g.back()
	for _, h := range g.held[:waiting] {
		close(h)
	}
	if g.held = g.held[waiting:]; len(g.held) > 0 {
		return 0
	}
	return askUp
}

// doubtful reports whether an error is a failure that may pass at once: one of the first in a row. The
// caller holds the lock.
func (g *Gate) doubtful(asked time.Time, err error) bool {
	if !errors.As(err, &failure{}) {
		return false
	}
	if g.failures++; g.failures == 1 {
		g.failing = asked
	}
	return g.failures < convincing
}

// away notes that the server is away: a question had no answer, or too many failed. The caller holds the lock.
func (g *Gate) away(asked time.Time, err error) {
	if g.since.IsZero() {
		if g.failures > 0 {
			asked = g.failing
		}
		g.since, g.counted = asked, asked
		g.log.Error(err, "The API server is gone: requests wait until it answers")
	}
	g.countAway()
}

// back notes that the server serves requests. The caller holds the lock.
func (g *Gate) back() {
	g.failures = 0
	if g.since.IsZero() {
		return
	}
	g.countAway()
	g.log.Info("The API server is back", "after", time.Since(g.since).Round(100*time.Millisecond).String())
	g.since = time.Time{}
}

// countAway counts the time of the outage until now. The caller holds the lock.
func (g *Gate) countAway() {
	now := time.Now()
	g.count(now.Sub(g.counted).Seconds())
	g.counted = now
}

// Away reports whether the server is away, and for how long.
func (g *Gate) Away() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		return 0, false
	}
	return time.Since(g.since), true
}

// errEnded is the error of requests that are held when the gate ends.
var errEnded = errors.New("the scheduler stops while the API server is away")

// Wait returns nil at once if the server answers, otherwise when it answers again. It returns an error if
// ctx ends before.
func (g *Gate) Wait(ctx context.Context) error {
	if _, away := g.Away(); !away {
		return nil
	}
	return g.Answered(ctx)
}

// Answered makes Run ask the server, and waits until it answers.
func (g *Gate) Answered(ctx context.Context) error {
	h := make(chan struct{})
	g.mu.Lock()
	g.held = append(g.held, h)
	g.mu.Unlock()
	g.doubt()
	select {
	case <-h:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.ended:
		return errEnded
	}
}

// doubt makes Run ask the server at once, unless it asks often anyway.
func (g *Gate) doubt() {
	if _, away := g.Away(); away {
		return
	}
	select {
	case g.doubted <- struct{}{}:
	default:
	}
}

// Wrap returns a transport that holds requests while the server is away. A request that fails is sent
// again once the server answers, if that does no harm: because it only reads, because there was no
// connection to send it on, or because it binds a pod. A request that reads or binds also fails if the
// server answers with status 500 or more.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{g, next} }

type transport struct {
	gate *Gate
	next http.RoundTripper
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := t.gate.Wait(ctx); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		response, err := t.next.RoundTrip(r)
		if done(r, response, err) || ctx.Err() != nil {
			if attempt > 1 && err == nil && isBinding(r) && response.StatusCode == http.StatusConflict {
				return t.settle(r, response)
			}
			return response, err
		}
		if attempt == attempts || !repeatable(r, err) {
			t.gate.doubt()
			return response, err
		}
		if response != nil {
			response.Body.Close()
		}
		if waited := t.gate.Answered(ctx); waited != nil {
			return nil, errors.Join(waited, err)
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// done reports whether a request has an answer that is to be taken as it is.
func done(r *http.Request, response *http.Response, err error) bool {
	return err == nil && !(fails(response) && (reads(r) || isBinding(r)))
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// repeatable reports whether a request that failed with err may be sent again.
func repeatable(r *http.Request, err error) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	if reads(r) || isBinding(r) {
		return true
	}
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// again returns the request with its body from the beginning.
func again(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	var err error
	r.Body, err = r.GetBody()
	return r, err
}
