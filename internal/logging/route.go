package logging

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// target is the present destination of klog's messages.
var target atomic.Pointer[logr.LogSink]

// install sets klog's logger. It happens once in a process, because goroutines that log to klog read its logger without a lock.
var install = sync.OnceFunc(func() {
	zerologr.NameFieldName = "logger"
	zerologr.VerbosityFieldName = ""
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetLoggerWithOptions(logr.New(routed{}), klog.ContextualLogger(true)) // otherwise klog drops loggers' names
})

// route sends klog's messages to a sink from now on. Loggers that were made from klog's before, such as named ones, keep their sink.
func route(sink logr.LogSink) {
	target.Store(&sink)
	install()
}

// DropKlog drops klog's messages until the next Setup.
func DropKlog() {
	route(zerologr.NewLogSink(new(zerolog.Nop())))
}

// routed is the sink of klog's logger.
type routed struct{}

// Init implements logr.LogSink.
func (routed) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (routed) Enabled(level int) bool { return (*target.Load()).Enabled(level) }

// Info implements logr.LogSink.
func (routed) Info(level int, message string, pairs ...any) {
	(*target.Load()).Info(level, message, pairs...)
}

// Error implements logr.LogSink.
func (routed) Error(err error, message string, pairs ...any) {
	(*target.Load()).Error(err, message, pairs...)
}

// WithValues implements logr.LogSink.
func (routed) WithValues(pairs ...any) logr.LogSink { return (*target.Load()).WithValues(pairs...) }

// WithName implements logr.LogSink.
func (routed) WithName(name string) logr.LogSink { return (*target.Load()).WithName(name) }
