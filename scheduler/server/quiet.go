package server

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// quietAtEnd returns a context whose logger drops errors that say nothing but that ctx was cancelled. An
// instance that ends in an outage cancels the requests of all its informers at once, and each of them would
// log that it failed.
func quietAtEnd(ctx context.Context) context.Context {
	log := klog.FromContext(ctx)
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink(), ctx}))
}

// quietSink is the sink of quietAtEnd.
type quietSink struct {
	logr.LogSink
	ctx context.Context
}

// Error implements logr.LogSink.
func (s quietSink) Error(err error, message string, pairs ...any) {
	if s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	s.LogSink.Error(err, message, pairs...)
}

// WithValues implements logr.LogSink.
func (s quietSink) WithValues(pairs ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(pairs...), s.ctx}
}

// WithName implements logr.LogSink.
func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name), s.ctx}
}
