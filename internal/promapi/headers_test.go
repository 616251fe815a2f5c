package promapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
)

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
