package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/exit"
)

// link knows whether the API server answers, from how the reflectors' own requests fare.
type link struct {
	fatal chan error // the first failure while starting

	mu       sync.Mutex
	now      func() time.Time
	starting bool             // until the first lists are complete
	failing  map[string]error // resources whose last request failed
	since    time.Time        // when the first of failing began to
}

func newLink(now func() time.Time) *link {
	return &link{fatal: make(chan error, 1), now: now, starting: true, failing: map[string]error{}}
}

// observe returns lw with its successes and failures noted under the name of the resource.
func (l *link) observe(what string, lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			l.note(ctx, what, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, o)
			l.note(ctx, what, err)
			return w, err
		},
	}
}

func (l *link) note(ctx context.Context, what string, err error) {
	if err != nil && (ctx.Err() != nil || negotiation(err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, what)
		return
	}
	if l.starting {
		select {
		case l.fatal <- explain(what, err):
		default: // one is enough
		}
	}
	if len(l.failing) == 0 {
		l.since = l.now()
	}
	l.failing[what] = err
}

// started makes later failures outages to sit out.
func (l *link) started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting = false
}

// lost reports the outage, if there is one.
func (l *link) lost() *state.Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failing) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(l.failing)))
	return &state.Lost{Since: l.since, Reason: reason(l.failing[first])}
}

// negotiation tells errors that are part of the protocol from failures: the reflector asks
// again in another way (an older resource version, a list instead of a stream, later).
func negotiation(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// explain turns a failed first request into an error with an exit code and a next step.
func explain(what string, err error) error {
	err = fmt.Errorf("list the %s: %w", what, err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return exit.New(exit.Kubeconfig, err, "the credentials in the kubeconfig are not accepted; fetch new ones, or name another with --kubeconfig or --context")
	case apierrors.IsForbidden(err):
		return exit.New(exit.Kubeconfig, err, "the user of the kubeconfig needs get, list and watch on "+what+" in all namespaces")
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err // the server answered, with something we do not know better
	}
	return exit.New(exit.Unreachable, err, "is the cluster up? `kwokcluster status` tells, for a simulated one")
}

// reason is the innermost message of err: the URL in front of it says nothing new.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
