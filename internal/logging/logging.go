// Package logging sets up the one logger of a process: zerolog to a human on stderr and as
// JSON lines to a file under logs/, with Kubernetes' own klog bridged into the same stream.
package logging

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
)

// Config says where a process logs to.
type Config struct {
	Component string    // names the file, and the "component" field of every line
	Dir       string    // directory of the log file; empty means no file
	Level     string    // debug, info, warn or error
	Stderr    io.Writer // where a human reads; nil means os.Stderr
	Quiet     bool      // nothing on Stderr: a view owns the screen
	NoColor   bool      // no colours on Stderr (NO_COLOR, or not a terminal)
}

// Setup builds the logger and routes klog to it. The closer flushes and closes the file. A
// directory that cannot be written is a usage error (exit code 2).
func Setup(c Config) (zerolog.Logger, io.Closer, error) {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil || c.Level == "" {
		return zerolog.Nop(), nil, exit.New(exit.Usage, fmt.Errorf("log level %q is not known", c.Level), "use debug, info, warn or error")
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	var writers []io.Writer
	if !c.Quiet {
		writers = append(writers, zerolog.ConsoleWriter{Out: c.Stderr, TimeFormat: time.TimeOnly, NoColor: c.NoColor})
	}
	var closer io.Closer = io.NopCloser(nil)
	if c.Dir != "" {
		f, err := openFile(c.Dir, c.Component)
		if err != nil {
			return zerolog.Nop(), nil, err
		}
		writers, closer = append(writers, f), f
	}
	log := zerolog.New(zerolog.MultiLevelWriter(writers...)).Level(level).With().Timestamp().Str("component", c.Component).Logger()
	bridgeKlog(log)
	return log, closer, nil
}

func openFile(dir, component string) (*os.File, error) {
	hint := "choose a directory that you can write to with --log-dir, or --log-dir='' for no file"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("make the log directory: %w", err), hint)
	}
	f, err := os.OpenFile(filepath.Join(dir, component+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the log file: %w", err), hint)
	}
	return f, nil
}

// Ours is the name of klog loggers that carry the project's own lines: code that runs inside
// Kubernetes' uses klog as that does, but has something to say to our users.
const Ours = "gnnsched"

// bridgeKlog sends klog, which all of Kubernetes' own code writes to, through log. klog's
// V(0) is chatter for our users ("starting controller …"), so it shows with debug alone,
// unless the logger is of the name Ours.
func bridgeKlog(log zerolog.Logger) {
	zerologr.NameFieldName = "logger"
	zerologr.VerbosityFieldName = ""
	sink := log.Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) { e.Str("source", "kubernetes") }))
	if log.GetLevel() > zerolog.DebugLevel {
		sink = sink.Level(zerolog.WarnLevel)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetLoggerWithOptions(logr.New(bridge{zerologr.NewLogSink(&sink), zerologr.NewLogSink(&log)}), klog.ContextualLogger(true)) // or names are lost
}

// bridge is Kubernetes' log sink, which turns into ours once a logger is named so.
type bridge struct {
	logr.LogSink
	ours logr.LogSink
}

// WithValues implements logr.LogSink.
func (b bridge) WithValues(pairs ...any) logr.LogSink {
	return bridge{b.LogSink.WithValues(pairs...), b.ours.WithValues(pairs...)}
}

// WithName implements logr.LogSink.
func (b bridge) WithName(name string) logr.LogSink {
	if name == Ours {
		return b.ours
	}
	return bridge{b.LogSink.WithName(name), b.ours} // whatever it was part of, it is ours
}
