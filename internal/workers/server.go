package workers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Serving configures a Server.
type Serving struct {
	Dir    string      // of the queue; of one process at a time
	Listen string      // HOST:PORT for other processes; empty: none
	TLS    *tls.Config // of HOST; a host that is not loopback needs one
	Log    zerolog.Logger
}

// Server is a NATS server in this process, with a queue in a folder.
type Server struct {
	nats  *server.Server
	lock  *os.File
	token string
	full  atomic.Bool // a write failed for want of room
	end   context.CancelFunc
	tasks sync.WaitGroup // until end
}

// Serve starts a server. Who connects shows a certificate of the authority or, where there is none, the token, which is in the file "token"
// in the folder, for this user alone.
func Serve(s Serving) (*Server, error) {
	o := &server.Options{
		ServerName: "gnnsched", DontListen: s.Listen == "", JetStream: true, StoreDir: filepath.Join(s.Dir, "queue"),
		NoSigs: true, // else it takes SIGTERM, and ends the process
		NoLog:  true,
		// A scheduler's step of 5,000 nodes takes two of the default's one million bytes.
		MaxPayload: 8 << 20,
	}
	if err := s.address(o); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	out := &Server{end: func() {}}
	var err error
	// Two servers in one folder would destroy it, and do not notice each other. The kernel frees the lock when a process dies.
	if out.lock, err = os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(out.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		out.lock.Close()
		return nil, fmt.Errorf("%s: %w", s.Dir, ErrInUse)
	}
	if s.TLS == nil { // else the certificate is the proof
		out.token, err = ownToken(filepath.Join(s.Dir, tokenFile))
		o.Authorization = out.token
	}
	if err == nil {
		out.nats, err = server.NewServer(o)
	}
	if err == nil {
		out.nats.SetLogger(diary{full: &out.full}, false, false)
		out.nats.Start()
		if !out.nats.ReadyForConnections(20 * time.Second) {
			err = fmt.Errorf("the server of the queue in %s did not start in 20 s; is %s in use?", s.Dir, s.Listen)
		}
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	var ctx context.Context
	ctx, out.end = context.WithCancel(context.Background())
	out.tasks.Go(func() { out.goOn(ctx, o.StoreDir, s.Log) })
	return out, nil
}

// room is the free space in bytes with which a queue goes on.
const room = 64 << 20

// goOn starts JetStream anew when there is room again after a write failed: streams remember the failure for ever.
func (s *Server) goOn(ctx context.Context, dir string, log zerolog.Logger) {
	for said := false; pause(ctx, time.Second); {
		if !s.full.Load() {
			continue
		}
		if !said {
			log.Error().Str("folder", dir).Msg("no space left on the disk of the queue: units wait until there is")
			said = true
		}
		var disk unix.Statfs_t
		if unix.Statfs(dir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < room {
			continue
		}
		s.full.Store(false)
		err := s.nats.ShutdownJetStream()
		if err == nil {
			err = s.nats.EnableJetStream(&server.JetStreamConfig{StoreDir: dir})
		}
		if err != nil {
			s.full.Store(true)
			continue
		}
		said = false
		log.Info().Msg("the disk of the queue has room again: units are computed")
	}
}

// diary hears the server's errors, and looks for full disks: clients are not told of them.
type diary struct{ full *atomic.Bool }

// Errorf implements server.Logger.
func (d diary) Errorf(_ string, values ...any) {
	for _, v := range values {
		if err, is := v.(error); is && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
			d.full.Store(true)
		}
	}
}

// Noticef implements server.Logger.
func (diary) Noticef(string, ...any) {}

// Warnf implements server.Logger.
func (diary) Warnf(string, ...any) {}

// Fatalf implements server.Logger.
func (diary) Fatalf(string, ...any) {}

// Debugf implements server.Logger.
func (diary) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (diary) Tracef(string, ...any) {}

// ErrInUse says that another process has the folder of a queue.
var ErrInUse = errors.New("another process has a queue in this folder")

// ownToken returns the token in a file, which it makes if it is missing: workers outlive a server.
func ownToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		data = []byte(rand.Text())
		err = os.WriteFile(path, data, 0o600)
	}
	return string(data), err
}

// address sets where the server listens.
func (s Serving) address(o *server.Options) error {
	if s.Listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return err
	}
	if o.Port, err = strconv.Atoi(port); err != nil || o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("%s: the port is no number from 0 to 65535", s.Listen)
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.Host, o.TLSConfig, o.TLS = host, s.TLS, s.TLS != nil
	if s.TLS == nil && !Loopback("//"+s.Listen) {
		return fmt.Errorf("%s is not a loopback address such as 127.0.0.1: it needs certificates", s.Listen)
	}
	return nil
}

// URL returns where others find the server.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Connect connects this process, without the network.
func (s *Server) Connect(ctx context.Context) (*Queue, error) {
	// With its own URL, whose scheme may be tls, the client would ask for certificates.
	return Connect(ctx, "nats://this-process", nats.InProcessServer(s.nats), nats.Token(s.token))
}

// Close ends the server. What it holds stays in the folder.
func (s *Server) Close() {
	s.end()
	s.tasks.Wait()
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	s.lock.Close()
}

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
