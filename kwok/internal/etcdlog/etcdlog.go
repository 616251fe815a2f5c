// Package etcdlog catches what the API server's etcd client logs. That logger is made when
// the API server's package is initialised and writes to stderr; there is no option for it.
// This package gives it another place to write to. It is initialised before, because Go takes
// the packages whose imports are ready in the order of their paths; a test holds that.
package etcdlog

import (
	"net/url"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"

	"gnnsched/kwok/internal/jsonlog"
)

const scheme = "gnnsched-etcdlog"

func init() {
	if err := zap.RegisterSink(scheme, func(*url.URL) (zap.Sink, error) { return sink{}, nil }); err != nil {
		return // the name is taken, which leaves the logger as it was
	}
	logutil.DefaultZapLoggerConfig.OutputPaths = []string{scheme + "://"}
}

var target atomic.Pointer[zerolog.Logger]

// Route sends warnings and errors to log from now on; nil drops them.
func Route(log *zerolog.Logger) { target.Store(log) }

// sink takes the logger's JSON lines, one at a time.
type sink struct{}

// Write implements zap.Sink.
func (sink) Write(b []byte) (int, error) {
	if log := target.Load(); log != nil {
		jsonlog.Forward(*log, b)
	}
	return len(b), nil
}

// Sync implements zap.Sink.
func (sink) Sync() error { return nil }

// Close implements zap.Sink.
func (sink) Close() error { return nil }
