package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/exit"
)

func TestCheckHealth(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.Write([]byte("ok"))
		case "/slow":
			<-release
		default:
			http.Error(w, "[-]sched-handler-sync failed", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	defer close(release)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url  string
		code int
		want string
	}{
		"ready":     {server.URL + "/readyz", exit.OK, ""},
		"not ready": {server.URL + "/starting", exit.Unreachable, "500 Internal Server Error: [-]sched-handler-sync failed"},
		"slow":      {server.URL + "/slow", exit.Unreachable, "deadline exceeded"},
		"gone":      {gone.URL, exit.Unreachable, "no scheduler answers"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			timeout := 5 * time.Second
			if name == "slow" {
				timeout = 50 * time.Millisecond
			}
			var out bytes.Buffer
			err = CheckHealth(t.Context(), u, timeout, &out)
			if exit.Code(err) != c.code {
				t.Errorf("exit code %d, want %d (%v)", exit.Code(err), c.code, err)
			}
			if err == nil && out.String() != "ok\n" {
				t.Errorf("output %q", out.String())
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
