package server

import (
	"net/http"
	"slices"
	"testing"

	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/usage"
)

// doors are the paths of the endpoint: everybody may read the health, a token opens the rest, and the
// paths for profiling exist only where it is turned on.
var doors = []struct {
	method, path    string
	open, profiling bool
}{
	{method: http.MethodGet, path: "/healthz", open: true},
	{method: http.MethodGet, path: "/livez", open: true},
	{method: http.MethodGet, path: "/readyz", open: true},
	{method: http.MethodGet, path: "/readyz?verbose", open: true},
	{method: http.MethodGet, path: "/"},
	{method: http.MethodGet, path: "/healthz/ping"},
	{method: http.MethodGet, path: "/metrics"},
	{method: http.MethodGet, path: "/metrics/resources"},
	{method: http.MethodGet, path: "/metrics/slis"},
	{method: http.MethodGet, path: "/configz"},
	{method: http.MethodGet, path: "/flagz"},
	{method: http.MethodGet, path: "/statusz"},
	{method: http.MethodGet, path: learningcurve.Path},
	{method: http.MethodGet, path: usage.Path},
	{method: http.MethodGet, path: "/debug/pprof/", profiling: true},
	{method: http.MethodGet, path: "/debug/pprof/heap", profiling: true},
	{method: http.MethodPut, path: "/debug/flags/v", profiling: true},
}

// Every path of the endpoint is asked without a token, with one that the cluster does not know, and with
// one that it knows.
func (l *lab) testDoors(t *testing.T) {
	for _, profiling := range []bool{false, true} {
		c := Config{Profiles: []Profile{{SchedulerName: "doors", Args: Args{Policy: "best-fit"}}}, QPS: 1000, Profiling: profiling}
		stop := l.run(t, c)
		l.untilReady(t)
		for _, d := range doors {
			denied, allowed := []int{http.StatusUnauthorized}, []int{http.StatusOK}
			if d.open {
				denied = allowed
			}
			switch {
			case d.profiling && !profiling, d.path == "/":
				allowed = []int{http.StatusNotFound, http.StatusOK} // the root lists paths, where the server has a root
			case d.path == "/flagz", d.path == "/statusz":
				allowed = []int{http.StatusOK, http.StatusNotAcceptable} // they serve to clients that accept their types
			}
			if status, body := l.ask(t, d.method, d.path, ""); !slices.Contains(denied, status) {
				t.Errorf("profiling %t: %s %s without a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, denied, body)
			}
			if status, _ := l.ask(t, d.method, d.path, "somebody-else"); status != http.StatusUnauthorized {
				t.Errorf("profiling %t: %s %s with a strange token: status %d", profiling, d.method, d.path, status)
			}
			if status, body := l.ask(t, d.method, d.path, l.cluster.REST().BearerToken); !slices.Contains(allowed, status) {
				t.Errorf("profiling %t: %s %s with a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, allowed, body)
			}
		}
		stop()
	}
}
