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
	"gnnsched/internal/kubeconfig"
)

// link knows whether the API server answers. It observes the requests of the reflectors.
type link struct {
	fatal chan error // the first failure while starting

	mu       sync.Mutex
	now      func() time.Time
	starting bool             // the first lists are not complete yet
	failing  map[string]error // resources whose last request failed
	since    time.Time        // when the first of them failed
}

func newLink(now func() time.Time) *link {
	return &link{fatal: make(chan error, 1), now: now, starting: true, failing: map[string]error{}}
}

// observe wraps lw so that link notes the results of its requests, under the resource's name.
func (l *link) observe(resource string, lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			l.note(ctx, "list", resource, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, o)
			l.note(ctx, "watch", resource, err)
			return w, err
		},
	}
}

// note records whether a request succeeded.
func (l *link) note(ctx context.Context, verb, resource string, err error) {
	if err != nil && (ctx.Err() != nil || negotiation(err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, resource)
		return
	}
	if l.starting {
		select {
		case l.fatal <- explain(verb, resource, err):
		default: // one is enough
		}
	}
	if len(l.failing) == 0 {
		l.since = l.now()
	}
	l.failing[resource] = err
}

// started marks the first lists as complete: from now on, failures are outages that end by themselves.
func (l *link) started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting = false
}

// lost returns the current outage, or nil.
func (l *link) lost() *state.Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failing) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(l.failing)))
	return &state.Lost{Since: l.since, Reason: reason(l.failing[first])}
}

// negotiation tells whether an error is part of the protocol. The reflector then asks again in
// another way: for an older resource version, for a list instead of a stream, or later.
func negotiation(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// explain turns a failed first request into an error with an exit code and a next step.
func explain(verb, resource string, err error) error {
	err = fmt.Errorf("%s %s: %w", verb, resource, err)
	switch {
	case apierrors.IsUnauthorized(err):
		return exit.New(exit.Kubeconfig, err,
			"the credentials in the kubeconfig are not accepted; fetch new ones, or name another with --kubeconfig or --context")
	case apierrors.IsForbidden(err):
		return exit.New(exit.Kubeconfig, err,
			"the user of the kubeconfig may not "+verb+" "+resource+" in all namespaces; `gnnsched doctor ktop` lists what is missing")
	}
	return kubeconfig.Explain(err)
}

// reason is the innermost message of err, without the request's URL in front of it.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
