package promapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
)

// Transient errors are distinguished from queries that will never be answered, and answers with warnings are answers.
func TestAnswers(t *testing.T) {
	const vector = `"data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]}]}`
	for _, c := range []struct {
		name    string
		status  int
		body    string
		want    string // in the error; empty for an answer
		refused bool
		warned  []string
	}{
		{name: "answer", status: 200, body: `{"status":"success",` + vector + `}`},
		{name: "warnings", status: 200, body: `{"status":"success","warnings":["a store is away","b"],"infos":["i"],` + vector + `}`,
			warned: []string{"a store is away", "b"}},
		{name: "error in a 200", status: 200, body: `{"status":"error","errorType":"timeout","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "untyped error in a 200", status: 200, body: `{"status":"error","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "bad query in a 200", status: 200, body: `{"status":"error","errorType":"bad_data","error":"parse error"}`,
			want: `Prometheus says "parse error"`, refused: true},
		{name: "too many samples", status: 422, body: `{"status":"error","errorType":"execution","error":"too many samples"}`,
			want: `Prometheus says "too many samples"`, refused: true},
		{name: "bad request", status: 400, body: `{"error":"no"}`, want: "not an answer of Prometheus"},
		{name: "timeout", status: 503, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`, want: "server error: 503: "},
		{name: "timeout behind a proxy", status: 422, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`,
			want: "query timed out"},
		{name: "busy", status: 429, body: `{"error":"slow down"}`, want: "slow down"},
		{name: "a page", status: 502, body: "<html>", want: `server error: 502: "<html>"`},
		{name: "another type", status: 200, body: `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, want: "not a vector"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client := fatal.Value(New(Server{Address: s.URL}))(t)
		var warned []string
		client.Warn = func(w string) { warned = append(warned, w) }
		got, err := client.Query(t.Context(), "up", time.Time{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && len(got) != 1 {
			t.Errorf("%s: %v, %v, want %q", c.name, got, err, c.want)
		}
		if refused := (Refused{}); errors.As(err, &refused) != c.refused {
			t.Errorf("%s: refused %v, want %v", c.name, !c.refused, c.refused)
		}
		if d := cmp.Diff(c.warned, warned); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		client.HTTP.CloseIdleConnections()
		s.Close()
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Run asks at once, then once an interval, and ends with its context.
func TestRun(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Interval: time.Minute, Timeout: time.Second, Clock: clock}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan time.Time)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, func(context.Context) { asked <- clock.Now() })
	}()
	for i := range 3 {
		if at := <-asked; !at.Equal(time.Unix(1e9, 0).Add(time.Duration(i) * time.Minute)) {
			t.Errorf("question %d at %v", i, at)
		}
		clock.Step(time.Minute)
	}
	<-asked
	cancel()
	<-ended
}

// Each change is reported once. The end of a context is not a failure of ask.
func TestAsk(t *testing.T) {
	p := &Poll{Timeout: time.Second, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	broken := errors.New("broken")
	var changes []bool
	for _, err := range []error{nil, broken, broken, nil, nil, broken} {
		changed, got := p.Ask(t.Context(), func(context.Context) error { return err })
		if !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
		changes = append(changes, changed)
	}
	if !slices.Equal(changes, []bool{false, true, false, true, false, true}) {
		t.Errorf("changes %v", changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := p.Ask(ctx, func(context.Context) error {
		cancel()
		return nil
	})
	if changed || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: changed %v, error %v", changed, err)
	}
}

// After the timeout, a question is abandoned with an error that names the timeout.
func TestTimeout(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Timeout: time.Second, Clock: clock}
	_, err := p.Ask(t.Context(), func(ctx context.Context) error {
		clock.Step(time.Second)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no answer within the timeout") {
		t.Errorf("error %v", err)
	}
}

// A tenant, basic authentication and a token reach the server, also over a redirect of its own, and no other server.
func TestHeaders(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		name           string
		headers, token string
		tenant, auth   string // that arrive
		err            string
	}{
		{name: "none"},
		{name: "a tenant", headers: "X-Scope-OrgID: team-a\n", tenant: "team-a"},
		{name: "basic authentication", headers: "x-scope-orgid: b\nAuthorization: Basic dTpw", tenant: "b", auth: "Basic dTpw"},
		{name: "a token", token: "secret\n", auth: "Bearer secret"},
		{name: "a token and a tenant", headers: "\nX-Scope-OrgID: c\r\n\r\n", token: "secret", tenant: "c", auth: "Bearer secret"},
		{name: "no header", headers: "team-a", err: "such as X-Scope-OrgID: team"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const answer = `{"status":"success","data":{"resultType":"vector","result":[]}}`
			var tenant, auth, elsewhere string
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				elsewhere = fmt.Sprint(r.Header["X-Scope-Orgid"], r.Header["Authorization"])
				fmt.Fprint(w, answer)
			}))
			defer other.Close()
			leave := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case leave:
					http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
				case strings.HasPrefix(r.URL.Path, "/old"):
					http.Redirect(w, r, strings.TrimPrefix(r.URL.Path, "/old"), http.StatusPermanentRedirect)
				default:
					tenant, auth = r.Header.Get("X-Scope-OrgID"), r.Header.Get("Authorization")
					fmt.Fprint(w, answer)
				}
			}))
			defer server.Close()
			s := Server{Address: server.URL + "/old"}
			if c.headers != "" {
				s.HeadersFile = write(c.headers)
			}
			if c.token != "" {
				s.TokenFile = write(c.token)
			}
			client, err := New(s)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Error(err)
				}
				return
			}
			fatal.If(t, err)
			defer client.HTTP.CloseIdleConnections()
			if _, err := client.Query(t.Context(), "up", time.Time{}); err != nil || tenant != c.tenant || auth != c.auth {
				t.Errorf("tenant %q, authorization %q, %v", tenant, auth, err)
			}
			leave = true
			if _, err := client.Query(t.Context(), "up", time.Time{}); err != nil || elsewhere != "[] []" {
				t.Errorf("another server gets %s, %v", elsewhere, err)
			}
		})
	}
	if _, err := New(Server{Address: "http://prometheus:9090", HeadersFile: write("Authorization: Basic dTpw")}); err == nil {
		t.Error("a password over http")
	}
	if _, err := New(Server{Address: "http://mimir:8080", HeadersFile: write("X-Scope-OrgID: a")}); err != nil {
		t.Error("a tenant over http:", err)
	}
}

func TestClusterLabel(t *testing.T) {
	c := fatal.Value(New(Server{Address: "http://p", ClusterLabel: `cluster=a"b`}))(t)
	for query, want := range map[string]string{
		"group by (node) (kube_node_info)": `group by (node) (kube_node_info{cluster="a\"b"})`,
		`max by (container_name) (rate(container_cpu_usage_seconds_total{id="/"}[5m]))`: `max by (container_name) ` +
			`(rate(container_cpu_usage_seconds_total{cluster="a\"b",id="/"}[5m]))`,
		`{__name__=~"kube_job_owner"}`: `{cluster="a\"b",__name__=~"kube_job_owner"}`,
		"timestamp(kube_node_labels)":  `timestamp(kube_node_labels{cluster="a\"b"})`,
		"sum by (node_name, destination_workload) (node_memory_MemTotal_bytes or kepler_platform_watts)": `sum by (node_name, ` +
			`destination_workload) (node_memory_MemTotal_bytes{cluster="a\"b"} or kepler_platform_watts{cluster="a\"b"})`,
	} {
		if got := c.narrow(query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	for label, valid := range map[string]bool{"cluster=east": true, "cluster=": true, "cluster": false, "=east": false, "a-b=c": false} {
		if err := (Server{Address: "http://p", ClusterLabel: label}).Validate(); (err == nil) != valid {
			t.Errorf("%s: %v", label, err)
		}
	}
}
