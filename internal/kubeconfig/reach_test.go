package kubeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

var serverSettings = TLSSettings{Address: "ADDRESS", Authority: "AUTHORITY", ServerName: "NAME", ClientCertificate: "CLIENT", proxy: "PROXY"}

// certificate returns a self-signed certificate for a name that ends at a time.
func certificate(t *testing.T, name string, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-100 * time.Hour), NotAfter: end, DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fatal.If(t, err)
	leaf, err := x509.ParseCertificate(der)
	fatal.If(t, err)
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
