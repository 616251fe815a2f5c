package metric

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
)

func TestValue(t *testing.T) {
	var s Set
	v := s.Counters("counted_total", "For a test.", "a")
	v.WithLabelValues("x").Add(2) // goes nowhere
	if n, err := Value(v.WithLabelValues("x")); n != 0 || err != nil {
		t.Errorf("not registered: %d, %v", n, err)
	}
	s.Register()
	s.Register()
	v.WithLabelValues("x").Add(3)
	for label, want := range map[string]int{"x": 3, "y": 0} {
		if n, err := Value(v.WithLabelValues(label)); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", label, n, err, want)
		}
	}
}

// A body that never comes ends the request and the connection, whether the handler reads it or not.
func TestGuard(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(GuardSlowClients(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			_, err := io.ReadAll(r.Body)
			fmt.Fprint(w, "read: ", err != nil)
		}
	}), 20*time.Millisecond))
	t.Cleanup(s.Close)
	for path, want := range map[string]string{"/read": "read: true", "/ignored": "200 OK"} {
		c := fatal.Value(net.Dial("tcp", s.Listener.Addr().String()))(t)
		fatal.Value(fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab", path))(t)
		got, err := io.ReadAll(c) // until the server closes the connection
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		c.Close()
	}
}
