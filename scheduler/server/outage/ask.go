package outage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// starting is how long a server may say that it is not ready, as it does while it starts. After that,
// requests are sent to it if it serves nodes.
const starting = time.Minute

// New returns a gate for the server of a client configuration. It logs outages, and calls count with the
// seconds that they take, several times during an outage.
func New(c *rest.Config, log logr.Logger, count func(seconds float64)) (*Gate, error) {
	q, err := newQuestion(c)
	if err != nil {
		return nil, err
	}
	return newGate(q.ask, log, count), nil
}

// question asks a server two things: whether it is ready, and for one node, which it reads from its store. It
// has connections of its own, new ones for each question, because an old one may be broken without its
// owner's knowledge.
type question struct {
	client       *http.Client
	ready, nodes string    // URLs
	failing      time.Time // since when the server has answered that it is not ready; zero if it is
	unheard      bool      // whether the last question had no answer
}

func newQuestion(c *rest.Config) (*question, error) {
	c = rest.CopyConfig(c)
	// A dialer makes that the transport is not shared with other clients of the same configuration.
	c.Dial = (&net.Dialer{Timeout: patience}).DialContext
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("a client for the API server's health: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	nodes := base.JoinPath("api", "v1", "nodes")
	nodes.RawQuery = "limit=1"
	return &question{client: client, ready: base.JoinPath("readyz").String(), nodes: nodes.String()}, nil
}

// failure is the answer of a server that fails.
type failure struct{ status string }

// Error implements error.
func (f failure) Error() string { return "it answers with " + f.status }

// ask returns nil if the server serves nodes, even if it says that it is not ready. It returns a failure if
// the server answers with status 500 or more when asked for nodes. After a question without an answer, the
// server must be ready too, unless that takes long.
func (q *question) ask(ctx context.Context) error {
	defer utilnet.CloseIdleConnectionsFor(q.client.Transport)
	ready, err := q.get(ctx, q.ready)
	var nodes *http.Response
	if err == nil {
		nodes, err = q.get(ctx, q.nodes)
	}
	if err != nil {
		q.unheard, q.failing = true, time.Time{}
		return err
	}
	switch {
	case !fails(ready):
		q.failing = time.Time{}
	case q.failing.IsZero():
		q.failing = time.Now()
	}
	if fails(nodes) {
		return failure{nodes.Status}
	}
	if q.unheard && fails(ready) && time.Since(q.failing) <= starting {
		return fmt.Errorf("it is not ready: %s", ready.Status)
	}
	q.unheard = false
	return nil
}

// fails reports whether an answer says that the server fails. A server that refuses a request, or is busy
// (status 429), serves others.
func fails(r *http.Response) bool { return r.StatusCode >= http.StatusInternalServerError }

// get returns the answer to a request, whose body is closed.
func (q *question) get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := q.client.Do(request)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // lets the connection go on
	return response, response.Body.Close()
}
