package kwok

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
	kwoklog "sigs.k8s.io/kwok/pkg/log"

	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/kwok/internal/etcdlog"
)

const (
	etcdStartTimeout = 30 * time.Second
	etcdQuota        = 8 << 30   // bytes; above it etcd refuses writes
	etcdMaxRequest   = 8 << 20   // bytes of one write
	etcdSpace        = 130 << 20 // bytes on disk: it makes two log files of 64 MB to begin with
	// etcdSlow is the duration from which etcd warns of slow requests. Its own default suits
	// machines that run only etcd.
	etcdSlow = 5 * time.Second
	// socketPathMax is a length of socket paths that every Unix allows.
	socketPathMax = 100
)

// startEtcd starts an etcd with one member and returns the path of its unix socket. It opens no
// network port. Its sockets are in a directory that only this user can enter.
func (cl *Cluster) startEtcd(ctx context.Context) (socket string, err error) {
	dir, cleanup, err := socketDir(cl.dir.path)
	if err != nil {
		return "", err
	}
	socket = filepath.Join(dir, socketClient)
	c := embed.NewConfig()
	c.Name = "default"
	c.Dir = cl.dir.file(dirEtcd)
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	// The peer listener takes the path from Host, the client listener from Path.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, socketPeer)}}
	// The advertised addresses are never used: there are no peers, and the API server uses the socket. But etcd requires addresses with host
	// and port.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.UnsafeNoFsync = true
	c.QuotaBackendBytes = etcdQuota
	c.MaxRequestBytes = etcdMaxRequest
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = etcdSlow, etcdSlow
	c.LogLevel = "warn"
	log := &etcdLog{ctx: ctx, log: cl.config.Log}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.zap())

	e, err := openEtcd(c)
	if err != nil {
		cleanup()
		hint := "if its data is damaged, delete it with `kwokcluster down --purge --dir " + exit.ShellLine(cl.dir.path) + "`"
		if left := spaceLeft(cl.dir.path); left < etcdSpace { // etcd's own error does not say so
			err = fmt.Errorf("no space left: %d MiB are free, %d are needed: %w", left>>20, etcdSpace>>20, err)
			hint = "free some space, or choose another directory with --dir"
		}
		return "", exit.New(exit.Internal, fmt.Errorf("start etcd on %s: %w", c.Dir, err), hint)
	}
	cl.launch(ctx, "etcd", func(ctx context.Context) error {
		defer cleanup()
		defer e.Close()
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.Err():
			return err
		case <-e.Server.StopNotify():
			return errors.New("its server stopped")
		}
	})
	select {
	case <-e.Server.ReadyNotify():
		log.serving.Store(true)
		return socket, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(etcdStartTimeout):
		return "", fmt.Errorf("etcd is not ready after %v", etcdStartTimeout)
	}
}

// openEtcd is embed.StartEtcd with panics turned into errors. With damaged files etcd panics or
// logs a fatal message, which etcdLog turns into a panic. openEtcd opens the database itself
// first, because etcd opens it in another goroutine, whose panic cannot be caught.
func openEtcd(c *embed.Config) (e *embed.Etcd, err error) {
	database := filepath.Join(c.Dir, "member", "snap", "db")
	if _, err := os.Stat(database); err == nil {
		db, err := bbolt.Open(database, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return nil, fmt.Errorf("open the database %s: %w", database, err)
		}
		if err := db.Close(); err != nil {
			return nil, fmt.Errorf("close the database %s: %w", database, err)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return embed.StartEtcd(c)
}

// spaceLeft returns how many bytes this user may still write in a directory; if that is not known, the most that there can be.
func spaceLeft(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return math.MaxInt64
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// socketDir creates a directory for sockets that only this user can enter: in dir, or a temporary
// directory if that path is too long for sockets. It also returns a function that deletes it.
func socketDir(dir string) (string, func(), error) {
	sockets := filepath.Join(dir, dirSockets)
	var err error
	if len(filepath.Join(sockets, socketPeer)) > socketPathMax {
		sockets, err = os.MkdirTemp("", "gnnsched-etcd-")
	} else if err = os.RemoveAll(sockets); err == nil { // a killed process may have left it
		err = os.Mkdir(sockets, 0o700)
	}
	if err != nil {
		return "", nil, dirError("make a directory for etcd's sockets", err)
	}
	return sockets, func() { _ = os.RemoveAll(sockets) }, nil
}

// etcdLog passes etcd's warnings and errors to a zerolog logger. It drops warnings until etcd
// serves, because they are about intended settings, and everything after ctx ends, because that
// is about being stopped.
type etcdLog struct {
	ctx     context.Context
	log     zerolog.Logger
	serving atomic.Bool
}

// zap returns the logger for etcd. A fatal message panics instead of ending the process.
func (l *etcdLog) zap() *zap.Logger {
	told := zap.LevelEnablerFunc(func(v zapcore.Level) bool { return v > zapcore.WarnLevel || v == zapcore.WarnLevel && l.serving.Load() })
	lines := zapcore.NewJSONEncoder(zapcore.EncoderConfig{LevelKey: "level", MessageKey: "msg", EncodeLevel: zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder, EncodeTime: zapcore.RFC3339TimeEncoder})
	to := logWriter{l.ctx, l.log.With().Str("source", "etcd").Logger(), nil}
	return zap.New(zapcore.NewCore(lines, zapcore.AddSync(to), told), zap.WithFatalHook(zapcore.WriteThenPanic))
}

// kwokLogger returns a logger for kwok's controllers, which take it from their context. It passes
// warnings and errors to log until ctx ends; later ones are about being stopped. Harmless errors
// get level debug.
func kwokLogger(ctx context.Context, log zerolog.Logger) *kwoklog.Logger {
	return kwoklog.NewLogger(logWriter{ctx, log.With().Str("source", "kwok").Logger(), harmless}, kwoklog.LevelWarn)
}

// logWriter receives a JSON log, one line at a time.
type logWriter struct {
	ctx      context.Context
	log      zerolog.Logger
	harmless func(text string) bool
}

// Write implements io.Writer.
func (w logWriter) Write(b []byte) (int, error) {
	if w.ctx.Err() == nil {
		etcdlog.Forward(w.log, b, w.harmless)
	}
	return len(b), nil
}

// harmless reports whether an error of a controller is about an object that changed while the
// controller handled it. Each pod that is deleted at once causes such an error.
func harmless(text string) bool {
	return strings.HasSuffix(text, " not found") || // deleted
		// kwok handled a new pod twice; the pod keeps the address that it got first
		strings.Contains(text, "may specify no more than one IP for each IP family")
}

// quiet returns a context for Kubernetes' controllers that shows their harmless errors only for debugging.
func quiet(ctx context.Context) context.Context {
	return logging.Quiet(ctx, func(err error) bool { return harmless(err.Error()) })
}
