package workers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
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
