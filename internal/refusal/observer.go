package refusal

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"gnnsched/internal/logging"
)

// Observer hears how an API server answers a client that reads.
type Observer struct {
	// Refused is called for the first refusal of a request, and again if it was granted in between. never reports that it was never granted.
	Refused func(r Request, never bool)
	Granted func(Request) // is called when a request that was refused is granted

	tally Tally
	mu    sync.Mutex
	err   error
}

// Config returns a copy of the configuration whose clients the observer hears.
func (o *Observer) Config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	base := baseOf(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{o, base, next} })
	return c
}

// baseOf returns the path of the API server with a slash at its end, or "". A host that is no URL makes no client, and so no requests.
func baseOf(c *rest.Config) string {
	server, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return ""
	}
	if path := strings.Trim(server.Path, "/"); path != "" {
		return path + "/"
	}
	return ""
}

type transport struct {
	observer *Observer
	base     string // see requestOf
	next     http.RoundTripper
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	if request, reads := requestOf(r, t.base); reads {
		t.observer.note(request, response.StatusCode)
	}
	return response, nil
}

// note takes the status of an answer. Statuses other than OK and Forbidden tell nothing about rights.
func (o *Observer) note(r Request, status int) {
	switch status {
	case http.StatusOK:
		if o.tally.Granted(r) && o.Granted != nil {
			o.Granted(r)
		}
	case http.StatusForbidden:
		if first, never := o.tally.Refused(r); first {
			o.Refused(r, never)
		}
	}
}

// Quiet returns a context whose logger drops errors about resources that are refused, which were told.
func (o *Observer) Quiet(ctx context.Context) context.Context {
	return logging.Quiet(ctx, func(err error) bool {
		var status apierrors.APIStatus
		if !apierrors.IsForbidden(err) || !errors.As(err, &status) {
			return false
		}
		d := status.Status().Details
		return d != nil && o.tally.any(d.Group, d.Kind)
	})
}

// Requiring returns an observer for a program that requires the rights of some rules to list and watch. If one was never granted, its
// refusal calls end and becomes the error of Err. Other refusals go to warn.
func Requiring(rules []rbacv1.PolicyRule, hint string, end context.CancelFunc, warn func(string)) *Observer {
	o := &Observer{}
	o.Granted = func(r Request) { warn("may " + r.String() + " now") }
	o.Refused = func(r Request, never bool) {
		if !never || !slices.ContainsFunc(rules, r.in) {
			warn("may not " + r.String() + "; it is tried again: " + hint)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = r.Error("it must be able to read everything that kube-scheduler's plugins watch", hint)
		}
		end()
	}
	return o
}

// Err returns the refusal error that ended the program of Requiring, or nil.
func (o *Observer) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// in reports whether the rule has the right to list or to watch that the request needs.
func (r Request) in(rule rbacv1.PolicyRule) bool {
	return r.Verb != "get" && slices.Contains(rule.APIGroups, r.Group) && slices.Contains(rule.Resources, r.Resource) &&
		slices.Contains(rule.Verbs, r.Verb)
}
