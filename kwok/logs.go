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
