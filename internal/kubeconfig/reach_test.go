package kubeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

var serverSettings = TLSSettings{Address: "ADDRESS", Authority: "AUTHORITY", ServerName: "NAME", ClientCertificate: "CLIENT", proxy: "PROXY"}

// certificate returns a self-signed certificate for a name that ends at a time.
func certificate(t *testing.T, name string, end time.Time) tls.Certificate {
	t.Helper()
	key := fatal.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-100 * time.Hour), NotAfter: end, DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := fatal.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	leaf := fatal.Value(x509.ParseCertificate(der))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// serving starts a server with TLS.
func serving(t *testing.T, c *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	s.TLS = c
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// at returns the address of a server under a name of its certificate.
func at(s *httptest.Server, scheme, name string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return scheme + "://" + net.JoinHostPort(name, port)
}

// Real servers fail in each way that the network, a proxy or TLS can fail.
func TestServers(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	good, old, other := certificate(t, "localhost", time.Now().Add(day)), certificate(t, "localhost", time.Now().Add(-day)),
		certificate(t, "x.example", time.Now().Add(day))
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	t.Cleanup(func() { _ = shut.Close() })
	go func() {
		for {
			c, err := shut.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(refusing.Close)
	secure := serving(t, &tls.Config{Certificates: []tls.Certificate{good}})
	for _, c := range []struct {
		name    string
		address string
		trusts  *x509.Certificate
		proxy   string
		misfit  bool
		hint    string
	}{
		{"authority", at(secure, "https", "localhost"), other.Leaf, "", true, "put that authority's certificate into AUTHORITY"},
		{"name", at(secure, "https", "127.0.0.1"), good.Leaf, "", true, "one of the certificate's names into NAME"},
		{"expired", at(serving(t, &tls.Config{Certificates: []tls.Certificate{old}}), "https", "localhost"), old.Leaf, "", false,
			"compare this machine's clock"},
		{"plain server", at(plain, "https", "localhost"), good.Leaf, "", true, "begin it with http://"},
		{"client certificate", at(serving(t, &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}), "https",
			"localhost"), good.Leaf, "", true, "check CLIENT"},
		{"versions", at(serving(t, &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS11}), "https", "localhost"), good.Leaf, "", true, "ended the TLS handshake"}, //nolint:gosec // as old servers
		{"nothing listens", gone.URL, nil, "", false, "nothing listens there"},
		{"closed", "https://" + shut.Addr().String(), nil, "", false, "closed without an answer"},
		{"proxy refuses", "https://x.example:6443", nil, refusing.URL, false, "the proxy is the fault: check PROXY"},
		{"proxy is gone", "https://x.example:6443", nil, gone.URL, false, "the proxy is the fault: check PROXY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}
			if c.trusts != nil {
				transport.TLSClientConfig.RootCAs.AddCert(c.trusts)
			}
			if c.proxy != "" {
				transport.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(c.proxy) }
			}
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(c.address)
			if err == nil {
				_ = response.Body.Close()
				t.Fatal("the server answered")
			}
			fault, explained := serverSettings.Explain(fmt.Errorf("list pods: %w", err))
			if !explained || fault.Misfit != c.misfit || !strings.Contains(fault.Hint, c.hint) {
				t.Errorf("%v: %+v, want %q", err, fault, c.hint)
			}
		})
	}
}

// Errors without a server for them in the test, and errors that are no fault of the way to the server.
func TestErrors(t *testing.T) {
	t.Parallel()
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://x.example", Err: err} }
	dial := func(err error) error { return get(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	for _, c := range []struct {
		err  error
		hint string // "" for no fault
	}{
		{get(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x.example", IsNotFound: true}}),
			"check the name in ADDRESS"},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "a VPN or a firewall"},
		{dial(os.ErrDeadlineExceeded), "a VPN or a firewall"},
		{get(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}), "needs another certificate"},
		{get(&net.OpError{Op: "socks connect", Err: errors.New("denied")}), "the proxy is the fault"},
		{errors.New("400 Bad Request: <title>400 The plain HTTP request was sent to HTTPS port</title>"), "begin ADDRESS with https://"},
		{get(context.Canceled), ""},
		{io.ErrUnexpectedEOF, ""}, // of a file
		{errors.New("admission webhook: tls: failed to verify certificate"), ""},
		{errors.New("Forbidden"), ""},
		{nil, ""},
	} {
		fault, explained := serverSettings.Explain(c.err)
		if explained != (c.hint != "") || !strings.Contains(fault.Hint, c.hint) {
			t.Errorf("%v: %+v, want %q", c.err, fault, c.hint)
		}
	}
}

func TestRequire(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/binding"}, Verbs: []string{"create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"}, ResourceNames: []string{"a"}},
	}
	all := []string{"create pods", "create pods/binding", "list replicasets.apps", "watch replicasets.apps",
		"update leases.coordination.k8s.io/a"}
	for _, denied := range [][]string{nil, {"watch replicasets.apps"}, all} {
		c := fake.NewClientset()
		c.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
			review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			review.Status.Allowed = !slices.Contains(denied, describe(*review.Spec.ResourceAttributes))
			return true, review, nil
		})
		missing, asked, err := Lacking(t.Context(), c, "", rules...)
		if err != nil || asked != len(all) || !slices.Equal(missing, denied) {
			t.Errorf("%q of %d are missing, %v; want %q", missing, asked, err, denied)
		}
		err = Require(t.Context(), c, "see X", rules...)
		if (err != nil) != (denied != nil) || err != nil && (exit.Code(err) != exit.Kubeconfig || !strings.HasSuffix(err.Error(), denied[len(denied)-1])) {
			t.Errorf("without %q: %v", denied, err)
		}
	}
	silent := fake.NewClientset()
	silent.PrependReactor("create", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("gone") })
	if err := Require(t.Context(), silent, "see X", rules...); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("an API server that does not answer: %v", err)
	}
}

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

const deadServer = `apiVersion: v1
kind: Config
current-context: sim
clusters: [{name: sim, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: x}}]
contexts: [{name: sim, context: {cluster: sim, user: admin}}]
`

func write(t *testing.T, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "kubeconfig")
	fatal.If(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

func TestErrorsCarryTheirCode(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	good := write(t, deadServer)
	empty := write(t, `{"apiVersion":"v1","kind":"Config"}`)
	for _, c := range []struct {
		name   string
		target Target
		code   int
		want   string
	}{
		{"no kubeconfig at all", Target{}, exit.Kubeconfig,
			"no kubeconfig: none in $KUBECONFIG, from the simulated cluster, or in ~/.kube/config"},
		{"empty file", Target{Kubeconfig: empty}, exit.Kubeconfig, "the kubeconfig " + empty + " names no cluster"},
		{"missing file", Target{Kubeconfig: "/does/not/exist"}, exit.Kubeconfig, "/does/not/exist"},
		{"malformed file", Target{Kubeconfig: write(t, "{{{")}, exit.Kubeconfig, "read the kubeconfig"},
		{"wrong context", Target{Kubeconfig: good, Context: "other"}, exit.Kubeconfig, "other"},
		{"no server", Target{Kubeconfig: good}, exit.Unreachable, "127.0.0.1:1"},
	} {
		_, _, err := c.target.Connect(context.Background())
		if exit.Code(err) != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: code %d (%v), want %d and %q", c.name, exit.Code(err), err, c.code, c.want)
		}
	}
}

func TestSimulatedClusterIsTheDefault(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	p := SimulatedKubeconfig(SimulatedDir())
	fatal.If(t, os.MkdirAll(filepath.Dir(p), 0o700))
	fatal.If(t, os.WriteFile(p, []byte(deadServer), 0o600))
	c, err := Target{}.REST()
	if err != nil || c.Host != "https://127.0.0.1:1" {
		t.Fatalf("got %v, %v; want the simulated cluster", c, err)
	}
	other := write(t, `{"apiVersion":"v1","kind":"Config","current-context":"o","clusters":[{"name":"o","cluster":{"server":"https://127.0.0.1:2"}}],"users":[{"name":"o","user":{}}],"contexts":[{"name":"o","context":{"cluster":"o","user":"o"}}]}`)
	t.Setenv("KUBECONFIG", other)
	if c, err = (Target{}).REST(); err != nil || c.Host != "https://127.0.0.1:2" {
		t.Fatalf("KUBECONFIG must win: got %v, %v", c, err)
	}
}

// kwokcluster down --purge leaves a shell with a $KUBECONFIG that is gone. No other cluster steps in.
func TestKubeconfigVariableOfAClusterThatIsGone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	fatal.If(t, os.MkdirAll(filepath.Join(home, ".kube"), 0o700))
	fatal.If(t, os.WriteFile(filepath.Join(home, ".kube", "config"), []byte(deadServer), 0o600))
	for env, want := range map[string]string{
		filepath.Join(home, "gone"):                     "$KUBECONFIG is " + filepath.Join(home, "gone") + ", which does not exist",
		write(t, `{"apiVersion":"v1","kind":"Config"}`): "which names no cluster",
	} {
		t.Setenv("KUBECONFIG", env)
		if _, err := (Target{}).REST(); exit.Code(err) != exit.Kubeconfig || !strings.Contains(err.Error(), want) {
			t.Errorf("KUBECONFIG=%s: code %d, %v; want %q", env, exit.Code(err), err, want)
		}
	}
}

func TestName(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	good := write(t, deadServer)
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Kubeconfig: good}, "sim"},
		{Target{Kubeconfig: good, Context: "named"}, "named"},
		{Target{Kubeconfig: "/does/not/exist"}, ""},
	} {
		if got := c.target.Name(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.target, got, c.want)
		}
	}
}
