// Package etcdlog redirects the log of the API server's etcd client. The client's logger is made
// when the API server's package is initialised, writes to stderr and has no option for that.
//
// This package replaces the logger's output path. It must be initialised first, and is, because
// Go initialises packages that are ready in the order of their import paths. A test checks it.
package etcdlog

import (
	"net/url"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
)

const scheme = "gnnsched-etcdlog"

func init() {
	if err := zap.RegisterSink(scheme, func(*url.URL) (zap.Sink, error) { return sink{}, nil }); err != nil {
		return // the name is taken; the logger stays as it is
	}
	logutil.DefaultZapLoggerConfig.OutputPaths = []string{scheme + "://"}
}

var target atomic.Pointer[zerolog.Logger]

// Route sends warnings and errors to log from now on. Nil drops them.
func Route(log *zerolog.Logger) { target.Store(log) }

// sink receives the logger's JSON output, one line at a time.
type sink struct{}

// Write implements zap.Sink.
func (sink) Write(b []byte) (int, error) {
	if log := target.Load(); log != nil {
		Forward(*log, b, nil)
	}
	return len(b), nil
}

// Sync implements zap.Sink.
func (sink) Sync() error { return nil }

// Close implements zap.Sink.
func (sink) Close() error { return nil }
