// Package etcdlog redirects the log of the API server's etcd client. The client's logger is made
// when the API server's package is initialised, writes to stderr and has no option for that.
//
// This package replaces the logger's output path. It must be initialised first, and is, because
// Go initialises packages that are ready in the order of their import paths. A test checks it.
package etcdlog

import (
	"encoding/json"
	"net/url"
	"strings"
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

// Forward passes one JSON line with the fields "level" and "msg" to log if it is a warning or an
// error. If harmless is not nil and true for the line's error, Forward logs the line at level debug.
// It logs a line that is not JSON as a warning.
func Forward(log zerolog.Logger, line []byte, harmless func(text string) bool) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		log.Warn().Msg(strings.TrimSpace(string(line)))
		return
	}
	name, _ := fields["level"].(string)
	level, err := zerolog.ParseLevel(strings.ToLower(name))
	if err != nil || level < zerolog.WarnLevel || cancelled(fields) {
		return
	}
	if text, ok := fields["err"].(string); ok && harmless != nil && harmless(text) {
		level = zerolog.DebugLevel
	}
	msg, _ := fields["msg"].(string)
	for _, k := range []string{"level", "msg", "ts", "time", "caller", "source"} {
		delete(fields, k) // log has its own, or they are not needed
	}
	log.WithLevel(min(level, zerolog.ErrorLevel)).Fields(fields).Msg(msg)
}

// cancelled reports whether the line is about a request that its client cancelled, which is not a
// fault.
func cancelled(fields map[string]any) bool {
	e, _ := fields["error"].(string)
	return strings.Contains(e, "context canceled") || strings.Contains(e, "code = Canceled")
}
