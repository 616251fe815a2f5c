package workers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// connectNATS connects to the servers at a URL, separated by commas, and calls prepare. It tries both for ten seconds, since a server
// may start later, and at several servers for a minute: a cluster elects a leader first. While their logs are empty, all servers must
// vote for one, and each vote that is split costs four to nine seconds (raft.go of nats-server 2.15). A connection that breaks later
// comes again by itself.
func connectNATS(ctx context.Context, url string, prepare func(context.Context, *nats.Conn) error,
	options ...nats.Option) (nc *nats.Conn, err error) {
	options = append([]nats.Option{
		nats.Name("gnnsched"), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(200*time.Millisecond, time.Second),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(3), // a dead network is noticed after 40 s, not after 6 minutes
	}, options...)
	patience := 10 * time.Second
	if strings.Contains(url, ",") {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		before := err
		err = nil
		if nc == nil {
			nc, err = nats.Connect(url, options...)
		}
		if err == nil {
			short, cancel := soon(ctx)
			err = prepare(short, nc)
			cancel()
		}
		if err == nil {
			return nc, nil
		}
		if final(err) || !pause(ctx, 300*time.Millisecond) {
			if nc != nil {
				nc.Close()
			}
			if before != nil && errors.Is(err, context.DeadlineExceeded) { // the try before had the time to fail
				err = before
			}
			return nil, fmt.Errorf("NATS at %s: %w", url, err)
		}
	}
}

// soon limits one request: a cluster without a leader does not answer.
func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 30*time.Second)
}

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// final tells whether another try would fail in the same way.
func final(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrNoServers) &&
		errors.As(err, &unknown)
}

// Loopback reports whether a URL names this machine by an address.
func Loopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// tokenFile is in the folder of a server that listens on this machine, for its user alone.
const tokenFile = "token"

// Token returns the option that shows the token of a server that listens on this machine, with a folder of this user. Each connection reads
// the file again: a server in a new folder has another token.
func Token(dir string) (nats.Option, error) {
	path := filepath.Join(dir, tokenFile)
	_, err := os.ReadFile(path)
	return nats.TokenHandler(func() string {
		data, _ := os.ReadFile(path) // a missing token is refused like a wrong one
		return string(data)
	}), err
}

// Certificates names PEM files: a process's own certificate and key, and the authority that signed those of its peers.
type Certificates struct{ Cert, Key, CA string }

// TLS returns the configuration of a server or client that accepts only peers with a certificate of the authority; nil for no files. Each
// connection reads the certificate again: it may have been renewed.
func (c Certificates) TLS() (*tls.Config, error) {
	if c == (Certificates{}) {
		return nil, nil
	}
	load := func() (*tls.Certificate, error) {
		own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		return &own, err
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate in PEM", c.CA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: authority, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() },
	}, nil
}
