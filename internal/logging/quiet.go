package logging

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// debugVerbosity is klog's level of messages for debugging.
const debugVerbosity = 4

// Quiet returns a context whose logger shows the errors that hide selects only for debugging.
func Quiet(ctx context.Context, hide func(error) bool) context.Context {
	log := klog.FromContext(ctx)
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink(), hide}))
}

// quietSink is the sink of Quiet.
type quietSink struct {
	logr.LogSink
	hide func(error) bool
}

// Error implements logr.LogSink.
func (s quietSink) Error(err error, message string, pairs ...any) {
	switch {
	case err == nil || !s.hide(err):
		s.LogSink.Error(err, message, pairs...)
	case s.Enabled(debugVerbosity):
		s.Info(debugVerbosity, message, append(pairs, "err", err)...)
	}
}

// WithValues implements logr.LogSink.
func (s quietSink) WithValues(pairs ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(pairs...), s.hide}
}

// WithName implements logr.LogSink.
func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name), s.hide}
}
