package work

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/workers"
)

// The bar says who works, as of five seconds ago at most, and who is slow. A queue that does not answer stops no result.
func TestBarOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		asked, answer := 0, make(chan error)
		bar := cli.NewBar(nil, false, zerolog.New(&said))
		c := &Pool{
			close: func() {}, note: bar.Note,
			took: map[string]time.Duration{}, played: map[string]int{}, asks: rate.Sometimes{Interval: 5 * time.Second},
			ask: func() (string, error) { asked++; return "2 workers with 8 slots", <-answer },
		}
		shows := func(done float64, want string) {
			t.Helper()
			synctest.Wait()
			said.Reset()
			bar.Show(done, want, "3 of 6")
			if got := said.String(); !strings.Contains(got, `"3 of 6`+want+`"`) {
				t.Errorf("%s, want %q", got, want)
			}
		}
		for range 3 {
			c.Result(workers.Result{Worker: "fast", Took: time.Second})
			c.Waiting()
		}
		shows(0, "")
		answer <- nil
		shows(0, " (2 workers with 8 slots)")
		for range 3 {
			c.Result(workers.Result{Worker: "old", Took: 4 * time.Second})
		}
		shows(0, " (2 workers with 8 slots; old is slow, 4s each)")
		if asked != 1 {
			t.Errorf("asked %d times within five seconds", asked)
		}
		time.Sleep(5 * time.Second) // of the test's clock
		c.Waiting()
		answer <- errors.New("no worker answers")
		shows(0.5, ", about 5 s left (no worker answers; old is slow, 4s each)")
		time.Sleep(5 * time.Second)
		c.Waiting()
		c.Close()
		answer <- nil // too late: the bar is gone
		shows(0.5, ", about 10 s left (no worker answers; old is slow, 4s each)")
	})
}

// The hint of a server that answers, but cannot have the queue, is not that there is none.
func TestUnreachable(t *testing.T) {
	for hinted, o := range map[string]server.Options{
		"JetStream":     {},
		"server's disk": {JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 10 << 20},
	} {
		o.DontListen, o.NoSigs, o.NoLog = true, true, true
		s, err := server.NewServer(&o)
		fatal.If(t, err)
		s.Start()
		defer s.Shutdown()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = workers.Connect(ctx, "nats://this-process", nats.InProcessServer(s))
		if err == nil || !strings.Contains(hint(err), hinted) {
			t.Errorf("%v; hint: %s, want %q in it", err, hint(err), hinted)
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
	s := fatal.Value(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, TLS: true,
		TLSConfig: &tls.Config{Certificates: other.TLS.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted},
	}))(t)
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
		if err == nil || !strings.Contains(hint(err), "--tls-dir with certificates of the server's authority") {
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
