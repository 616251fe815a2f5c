package outage

import (
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

// status answers every request with a status, or with no answer for 0.
type status int

func (s status) RoundTrip(r *http.Request) (*http.Response, error) {
	if s == 0 {
		return nil, errRefused
	}
	return &http.Response{StatusCode: int(s), Status: http.StatusText(int(s)), Body: http.NoBody, Request: r}, nil
}

// A server that fails counts as one that answers. But after it was gone it must be ready first, unless
// that takes long.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{url: "http://api/readyz"}
		for i, step := range []struct {
			wait   time.Duration
			status status
			fails  bool
		}{
			{0, http.StatusOK, false},
			{0, http.StatusInternalServerError, false},
			{0, http.StatusUnauthorized, false},
			{0, 0, true},
			{time.Second, http.StatusInternalServerError, true},
			{30 * time.Second, http.StatusInternalServerError, true},
			{time.Second, http.StatusOK, false},
			{0, http.StatusInternalServerError, false},
			{0, 0, true},
			{time.Second, http.StatusInternalServerError, true},
			{time.Second, 0, true},
			{starting, http.StatusInternalServerError, true},
			{starting + 1, http.StatusInternalServerError, false},
			{0, http.StatusInternalServerError, false},
		} {
			time.Sleep(step.wait)
			q.client = &http.Client{Transport: step.status}
			if err := q.ask(t.Context()); (err != nil) != step.fails {
				t.Errorf("question %d, answer %d: %v, to fail: %v", i, step.status, err, step.fails)
			}
		}
	})
}

// A gate asks the server of a client configuration with its credentials, each time on a new connection.
func TestNew(t *testing.T) {
	var connections, questions atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/behind/readyz" && r.Header.Get("Authorization") == "Bearer secret" {
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
	if questions.Load() != 3 || connections.Load() != 3 {
		t.Errorf("%d questions on %d connections, want 3 on 3", questions.Load(), connections.Load())
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
