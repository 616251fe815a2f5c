package server

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// quiet returns a context whose logger drops the errors that drop selects.
func quiet(ctx context.Context, drop func(error) bool) context.Context {
	log := klog.FromContext(ctx)
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink(), drop}))
}

// quietAtEnd returns a context whose logger drops errors that say nothing but that ctx was cancelled. An
// instance that ends in an outage cancels the requests of all its informers at once, and each of them would
// log that it failed.
func quietAtEnd(ctx context.Context) context.Context {
	return quiet(ctx, func(err error) bool { return ctx.Err() != nil && errors.Is(err, context.Canceled) })
}

// quietSink is the sink of quiet.
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
