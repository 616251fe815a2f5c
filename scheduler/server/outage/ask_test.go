package outage

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// server answers the question for its readiness and the one for nodes with a status, or not at all for 0.
type server struct{ ready, nodes int }

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	status := s.nodes
	if r.URL.Path == "/readyz" {
		status = s.ready
	}
	if status == 0 {
		return nil, errRefused
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody, Request: r}, nil
}

// A server that serves nodes answers, whatever it says about its readiness. But after it was gone it must be
// ready first, unless that takes long. One that does not serve nodes fails.
func TestAsk(t *testing.T) {
	const (
		well  = ""
		gone  = "connection refused"
		fail  = "it answers with "
		waits = "it is not ready: "
	)
	synctest.Test(t, func(t *testing.T) {
		q := &question{ready: "http://api/readyz", nodes: "http://api/api/v1/nodes"}
		for i, step := range []struct {
			wait   time.Duration
			server server
			want   string
		}{
			{0, server{200, 200}, well},
			{0, server{500, 200}, well},
			{0, server{401, 403}, well},
			{0, server{200, 429}, well},
			{0, server{200, 500}, fail + "Internal Server Error"},
			{0, server{503, 503}, fail + "Service Unavailable"},
			{0, server{500, 200}, well},
			{0, server{0, 0}, gone},
			{time.Second, server{500, 200}, waits + "Internal Server Error"},
			{30 * time.Second, server{500, 200}, waits + "Internal Server Error"},
			{time.Second, server{200, 500}, fail + "Internal Server Error"},
			{time.Second, server{200, 200}, well},
			{0, server{500, 200}, well},
			{0, server{200, 0}, gone},
			{time.Second, server{500, 200}, waits + "Internal Server Error"},
			{time.Second, server{0, 200}, gone},
			{starting, server{500, 200}, waits + "Internal Server Error"},
			{starting + 1, server{500, 500}, fail + "Internal Server Error"},
			{0, server{500, 200}, well},
			{0, server{500, 200}, well},
		} {
			time.Sleep(step.wait)
			q.client = &http.Client{Transport: step.server}
			err := q.ask(t.Context())
			if (err == nil) != (step.want == well) || err != nil && !strings.Contains(err.Error(), step.want) ||
				errors.As(err, &failure{}) != strings.HasPrefix(step.want, fail) {
				t.Errorf("question %d, answers %+v: %v, want %q", i, step.server, err, step.want)
			}
		}
	})
}

// A gate asks the server of a client configuration with its credentials, each time on a new connection.
func TestNew(t *testing.T) {
	var connections, questions atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.URL.Path == "/behind/readyz" || r.URL.String() == "/behind/api/v1/nodes?limit=1") &&
			r.Header.Get("Authorization") == "Bearer secret" {
			questions.Add(1)
		}
	}))
	server.Listener = counting{server.Listener, &connections}
	server.StartTLS()
	config := &rest.Config{Host: server.URL + "/behind", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	g, err := New(config, logr.Discard(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := g.ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if questions.Load() != 6 || connections.Load() != 3 {
		t.Errorf("%d questions on %d connections, want 6 on 3", questions.Load(), connections.Load())
	}
	server.Close()
	if err := g.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a closed server: %v", err)
	}
	if _, err := New(&rest.Config{Host: "http://%"}, logr.Discard(), nil); err == nil {
		t.Errorf("a malformed address: %v", err)
	}
}

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	n *atomic.Int32
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}
