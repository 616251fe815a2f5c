package kubeconfig

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// Other servers in an API server's place, and missing ones, have their exit code and next step.
func TestConnectExplains(t *testing.T) {
	answers := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	start := func(h http.Handler, secure bool) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s
	}
	tls := start(answers(http.StatusOK, "ok"), true)
	ca := "certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	proxy := start(answers(http.StatusProxyAuthRequired, ""), false)
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Second
	asked := 0
	startsSoon := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}), false)
	for _, c := range []struct {
		name    string
		cluster string // fields of the kubeconfig's cluster
		code    int
		want    string // in the error
		hint    string
	}{
		{"ready", "server: " + tls.URL + ", " + ca, exit.OK, "", ""},
		{"authority", "server: " + tls.URL, exit.Kubeconfig, "does not fit the cluster", "`certificate-authority-data`"},
		{"name", "tls-server-name: other.example, server: " + tls.URL + ", " + ca, exit.Kubeconfig, "other.example", "`tls-server-name`"},
		{"HTTP to HTTPS", "server: " + strings.Replace(tls.URL, "https", "http", 1), exit.Kubeconfig, "does not fit the cluster",
			"with https://"},
		{"HTTPS to HTTP", "server: " + strings.Replace(proxy.URL, "http", "https", 1), exit.Kubeconfig, "does not fit the cluster",
			"with http://"},
		{"proxy", "server: \"https://prod.example:6443\", proxy-url: " + proxy.URL, exit.Unreachable, "Proxy Authentication Required",
			"`proxy-url`"},
		{"proxy of HTTP", "server: \"http://prod.example:6443\", proxy-url: " + proxy.URL, exit.Kubeconfig, "a proxy answers", "`proxy-url`"},
		{"proxy is gone", "server: \"https://prod.example:6443\", proxy-url: \"http://127.0.0.1:1\"", exit.Unreachable, "does not answer",
			"`proxy-url`"},
		{"a page", "server: " + start(answers(http.StatusOK, "\n<!DOCTYPE html>"), false).URL, exit.Kubeconfig, "a web page answers", "proxy"},
		{"another path", "server: " + start(answers(http.StatusNotFound, "404"), false).URL, exit.Kubeconfig, "no API server answers", "path"},
		{"ready soon", "server: " + startsSoon.URL, exit.OK, "", ""},
		{"starting", "server: " + start(answers(http.StatusInternalServerError, "[-]etcd failed"), false).URL, exit.Unreachable, "is not ready",
			"readyz?verbose"},
		{"load balancer", "server: " + start(answers(http.StatusBadGateway, "<html>"), false).URL, exit.Unreachable,
			"a proxy or load balancer answers", "behind it"},
		{"no right to ask", "server: " + start(answers(http.StatusForbidden, `forbidden: User "jane" cannot get path "/readyz"`), false).URL,
			exit.OK, "", ""},
		{"nobody", "server: " + start(answers(http.StatusForbidden, `forbidden: User "system:anonymous" cannot get path "/readyz"`), false).URL,
			exit.Kubeconfig,
			"refuses the credentials", "user of the context"},
		{"user", "server: " + start(answers(http.StatusUnauthorized, ""), false).URL, exit.Kubeconfig, "refuses the credentials",
			"user of the context"},
		{"simulated", "server: \"https://127.0.0.1:1\"", exit.Unreachable, "does not answer", "`kwokcluster up`"},
	} {
		file := write(t, "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {"+c.cluster+
			"}}], users: [], contexts: [{name: c, context: {cluster: c}}]}")
		_, _, err := Target{Kubeconfig: file}.Connect(t.Context())
		var known *exit.Error
		if errors.As(err, &known); exit.Code(err) != c.code || err != nil &&
			(!strings.Contains(err.Error(), c.want) || !strings.Contains(known.Hint, c.hint)) {
			t.Errorf("%s: code %d: %v: %v; want code %d, %q and %q", c.name, exit.Code(err), err, known, c.code, c.want, c.hint)
		}
		if known != nil && strings.Contains(known.Hint, "kwokcluster") != (c.name == "simulated") {
			t.Errorf("%s: the hint %q", c.name, known.Hint)
		}
	}
}

// A program that gets credentials may fail, too; and an expired certificate is named.
func TestCredentials(t *testing.T) {
	const user = "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: \"https://prod.example\"}}], " +
		"contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, " +
		"command: there-is-no-such-program, interactiveMode: Never}}}]}"
	_, _, err := Target{Kubeconfig: write(t, user)}.Connect(t.Context())
	var known *exit.Error
	if !errors.As(err, &known) || known.Code != exit.Kubeconfig || !strings.Contains(known.Hint, "gets credentials from a program") {
		t.Errorf("%v", err)
	}
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	c := &rest.Config{Host: "https://prod.example"}
	c.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for after, want := range map[time.Duration]string{time.Hour: "expired at " + s.Certificate().NotAfter.UTC().Format(time.RFC3339),
		-time.Hour: "check the user"} {
		err := unready(c, nil, apierrors.NewUnauthorized("no"), s.Certificate().NotAfter.Add(after))
		if !errors.As(err, &known) || known.Code != exit.Kubeconfig || !strings.Contains(known.Hint, want) {
			t.Errorf("%v: %v, want %q", err, known, want)
		}
	}
}

// Only a cluster on this machine, and the simulated one anywhere, counts as simulated.
func TestExplainNamesSimulatedClusters(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	p := SimulatedKubeconfig(SimulatedDir())
	fatal.If(t, os.MkdirAll(filepath.Dir(p), 0o700))
	fatal.If(t, os.WriteFile(p, []byte(strings.ReplaceAll(deadServer, "127.0.0.1:1", "cluster:6443")), 0o600))
	lost := func(address string) error {
		return fmt.Errorf("list pods: %w", &url.Error{Op: "Get", URL: address, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}})
	}
	for _, c := range []struct {
		err       error
		code      int
		simulated bool
	}{
		{lost("https://127.0.0.1:6443/api"), exit.Unreachable, true},
		{lost("https://[::1]:6443/api"), exit.Unreachable, true},
		{lost("https://localhost/api"), exit.Unreachable, true},
		{lost("https://cluster:6443/api"), exit.Unreachable, true},
		{lost("https://prod.example:6443/api"), exit.Unreachable, false},
		{&url.Error{Op: "Get", URL: "https://prod.example", Err: context.DeadlineExceeded}, exit.Unreachable, false},
		{&url.Error{Op: "Get", URL: "https://prod.example", Err: context.Canceled}, exit.Interrupted, false},
		{fmt.Errorf("stuck: %w", context.DeadlineExceeded), exit.Internal, false},
		{apierrors.NewInternalError(&url.Error{Op: "Get", Err: syscall.ECONNREFUSED}), exit.Internal, false}, // an answer
		{exit.Usagef("no"), exit.Usage, false},
		{nil, exit.OK, false},
	} {
		err := Explain(c.err)
		hint := ""
		if known := (*exit.Error)(nil); errors.As(err, &known) {
			hint = known.Hint
		}
		if exit.Code(err) != c.code || strings.Contains(hint, "kwokcluster") != c.simulated {
			t.Errorf("%v: code %d, hint %q", c.err, exit.Code(err), hint)
		}
	}
}

// A user without a right ends every command with one code. Admission refuses with the same status, for other reasons.
func TestRefused(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err  error
		code int
	}{
		{fmt.Errorf("list: %w", apierrors.NewForbidden(pods, "", errors.New(`User "jane" cannot list resource "pods"`))), exit.Kubeconfig},
		{apierrors.NewUnauthorized("no"), exit.Kubeconfig},
		{apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: q")), exit.Internal},
		{exit.New(exit.Usage, apierrors.NewUnauthorized("no"), ""), exit.Usage},
		{nil, exit.OK},
	} {
		if got := exit.Code(Refused(c.err)); got != c.code {
			t.Errorf("%v: code %d, want %d", c.err, got, c.code)
		}
	}
}
