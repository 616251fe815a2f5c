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

// starting is how long a server may answer that it fails, as it does while it starts. After that,
// requests are sent to it all the same.
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

// question asks a server whether it is ready. It has connections of its own, a new one each time, because
// an old one may be broken without its owner's knowledge.
type question struct {
	client  *http.Client
	url     string
	failing time.Time // since when the server has answered that it fails; zero if the last answer was another
	unheard bool      // whether the last question had no answer
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
	return &question{client: client, url: base.JoinPath("readyz").String()}, nil
}

// ask returns nil if the server answers. After a question without an answer, an answer of a server that
// fails (status 500 and more) does not count, unless it has failed for long.
func (q *question) ask(ctx context.Context) error {
	defer utilnet.CloseIdleConnectionsFor(q.client.Transport)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url, nil)
	if err != nil {
		return err
	}
	response, err := q.client.Do(request)
	if err != nil {
		q.unheard, q.failing = true, time.Time{}
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // lets the connection end in good order
	if response.StatusCode < http.StatusInternalServerError || !q.unheard {
		q.unheard, q.failing = false, time.Time{}
		return nil
	}
	if q.failing.IsZero() {
		q.failing = time.Now()
	}
	if time.Since(q.failing) > starting {
		q.unheard, q.failing = false, time.Time{}
		return nil
	}
	return fmt.Errorf("it is not ready: %s", response.Status)
}
