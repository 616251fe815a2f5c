package logging

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Quiet returns a context whose logger drops the errors that drop selects.
func Quiet(ctx context.Context, drop func(error) bool) context.Context {
	log := klog.FromContext(ctx)
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink(), drop}))
}

// quietSink is the sink of Quiet.
type quietSink struct {
	logr.LogSink
	drop func(error) bool
}

// Error implements logr.LogSink.
func (s quietSink) Error(err error, message string, pairs ...any) {
	if !s.drop(err) {
		s.LogSink.Error(err, message, pairs...)
	}
}

// WithValues implements logr.LogSink.
func (s quietSink) WithValues(pairs ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(pairs...), s.drop}
}

// WithName implements logr.LogSink.
func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name), s.drop}
}
