package work

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
)

// The hint of a server that answers, but cannot have the queue, is not that there is none.
func TestUnreachable(t *testing.T) {
	for name, o := range map[string]server.Options{
		"without JetStream": {},
		"without room":      {JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 10 << 20},
	} {
		o.DontListen, o.NoSigs, o.NoLog = true, true, true
		s, err := server.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		defer s.Shutdown()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = workers.Connect(ctx, "nats://this-process", nats.InProcessServer(s))
		if err == nil || !strings.Contains(hint(err), "JetStream") {
			t.Errorf("%s: %v; hint: %s", name, err, hint(err))
		}
	}
	if h := hint(nats.ErrAuthorization); !strings.Contains(h, passwordEnv) {
		t.Error(h)
	}
}

// The hint of a certificate that one side does not accept is not that there is no server.
func TestUnreachableWithoutCertificate(t *testing.T) {
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(other.Certificate())
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, TLS: true,
		TLSConfig: &tls.Config{Certificates: other.TLS.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	for name, options := range map[string][]nats.Option{
		"no authority": {nats.Secure(&tls.Config{RootCAs: x509.NewCertPool()})}, "no certificate": {nats.Secure(&tls.Config{RootCAs: trusted})},
		"another name": {nats.Secure(&tls.Config{RootCAs: trusted, ServerName: "queue"})},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := workers.Connect(ctx, s.ClientURL(), options...)
		if err == nil || !strings.Contains(hint(err), "--client-ca-file of the server's authority") {
			t.Errorf("%s: %v; hint: %s", name, err, hint(err))
		}
	}
}

// hint returns the hint for an error of a connection.
func hint(err error) string {
	var e *exit.Error
	errors.As(unreachable(err), &e)
	return e.Hint
}
