package kwok

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	kwoklog "sigs.k8s.io/kwok/pkg/log"

	"gnnsched/internal/logging"
	"gnnsched/kwok/internal/etcdlog"
)

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
	return zap.New(&zapCore{to: l, log: l.log.With().Str("source", "etcd").Logger()}, zap.WithFatalHook(zapcore.WriteThenPanic))
}

type zapCore struct {
	to  *etcdLog
	log zerolog.Logger
}

// Enabled implements zapcore.LevelEnabler.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return l > zapcore.WarnLevel || l == zapcore.WarnLevel && c.to.serving.Load()
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{to: c.to, log: c.log.With().Fields(zapFields(fields)).Logger()}
}

// Check implements zapcore.Core.
func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if c.to.ctx.Err() != nil {
		return nil
	}
	level := zerolog.WarnLevel
	if e.Level > zapcore.WarnLevel {
		level = zerolog.ErrorLevel
	}
	c.log.WithLevel(level).Fields(zapFields(fields)).Msg(e.Message)
	return nil
}

// Sync implements zapcore.Core.
func (c *zapCore) Sync() error { return nil }

func zapFields(fields []zapcore.Field) map[string]any {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	return m.Fields
}

// kwokLogger returns a logger for kwok's controllers, which take it from their context. It passes
// warnings and errors to log until ctx ends; later ones are about being stopped. Harmless errors
// get level debug.
func kwokLogger(ctx context.Context, log zerolog.Logger) *kwoklog.Logger {
	return kwoklog.NewLogger(kwokWriter{ctx, log.With().Str("source", "kwok").Logger()}, kwoklog.LevelWarn)
}

// kwokWriter receives kwok's JSON log, one line at a time.
type kwokWriter struct {
	ctx context.Context
	log zerolog.Logger
}

// Write implements io.Writer.
func (w kwokWriter) Write(b []byte) (int, error) {
	if w.ctx.Err() == nil {
		etcdlog.Forward(w.log, b, harmless)
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
