// Package logging sets up the logger of a process. It writes lines for people to stderr and JSON lines
// to a file that rotates, with zerolog. The messages that Kubernetes' libraries send to klog go to the same places.
package logging

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
)

// Config sets the place and the level of a process's log.
type Config struct {
	Component string    // name of the file without ".log", and the field "component" of every line
	Dir       string    // directory of the log file; empty: no file
	Level     string    // debug, info, warn or error
	Stderr    io.Writer // nil: os.Stderr
	Optional  bool      // without a place for the file, warn and log to Stderr only
	Quiet     bool      // nothing to Stderr, for commands that draw on the screen
	NoColor   bool      // no colours on Stderr
}

// Setup makes the logger and routes klog to it. The io.Closer closes the file. An unknown level or a directory that cannot be written is a
// usage error (exit code 2), the latter unless Optional is set. If Setup makes the directory, the first line tells so.
func Setup(c Config) (zerolog.Logger, io.Closer, error) {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil || c.Level == "" {
		return zerolog.Nop(), nil, exit.New(exit.Usage, choice.Unknown("log level", c.Level, []string{"debug", "info", "warn", "error"}), "")
	}
	if c.Stderr == nil {
		c.Stderr = Writer(os.Stderr)
	}
	var writers []io.Writer
	if !c.Quiet {
		writers = append(writers, zerolog.ConsoleWriter{Out: c.Stderr, TimeFormat: time.TimeOnly, NoColor: c.NoColor})
	}
	var closer io.Closer = io.NopCloser(nil)
	_, missing := os.Stat(c.Dir)
	var noFile error
	if c.Dir != "" {
		f, err := openFile(c.Dir, c.Component)
		switch {
		case err == nil:
			writers = append(writers, f)
			closer = f
		case !c.Optional:
			return zerolog.Nop(), nil, err
		}
		noFile = err
	}
	log := zerolog.New(zerolog.MultiLevelWriter(writers...)).Level(level).With().Timestamp().Str("component", c.Component).Logger()
	bridgeKlog(log)
	switch {
	case noFile != nil:
		log.Warn().Err(noFile).Msg("no log file; choose a directory for it with --log-dir")
	case c.Dir != "" && os.IsNotExist(missing):
		log.Info().Str("directory", c.Dir).Msg("made the directory of the log file; choose another with --log-dir")
	}
	return log, closer, nil
}

// A log file of maxMegabytes is renamed, with its time in the name, and a new one begun. The oldest
// file is deleted when there are more than maxBackups besides the current one.
const (
	maxMegabytes = 50
	maxBackups   = 3
)

// openFile opens the log file, which rotates.
func openFile(dir, component string) (io.WriteCloser, error) {
	hint := "choose a directory that you can write to with --log-dir, or --log-dir='' for no file"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("create the log directory: %w", err), hint)
	}
	path := filepath.Join(dir, component+".log")
	// lumberjack opens the file at the first line, which is too late for a usage error.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the log file: %w", err), hint)
	}
	return &lumberjack.Logger{Filename: path, MaxSize: maxMegabytes, MaxBackups: maxBackups}, nil
}

// ProjectLogger is the name of the klog loggers of this project's own code. Code that runs inside kube-scheduler logs to klog; the name
// distinguishes its messages from Kubernetes' own.
const ProjectLogger = "gnnsched"

// bridgeKlog sends klog's messages to log. Kubernetes logs many messages at klog's lowest verbosity ("starting controller …") that do not
// interest users, so its messages below a warning appear only at level debug. Messages of ProjectLogger keep their level.
func bridgeKlog(log zerolog.Logger) {
	sink := log.Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) { e.Str("source", "kubernetes") }))
	if log.GetLevel() > zerolog.DebugLevel {
		sink = sink.Level(zerolog.WarnLevel)
	}
	route(bridge{zerologr.NewLogSink(&sink), zerologr.NewLogSink(&log)})
}

// bridge is the log sink of Kubernetes' loggers. A logger named ProjectLogger gets the sink project
// instead.
type bridge struct {
	logr.LogSink
	project logr.LogSink
}

// WithValues implements logr.LogSink.
func (b bridge) WithValues(pairs ...any) logr.LogSink {
	return bridge{b.LogSink.WithValues(pairs...), b.project.WithValues(pairs...)}
}

// WithName implements logr.LogSink.
func (b bridge) WithName(name string) logr.LogSink {
	if name == ProjectLogger {
		return b.project
	}
	return bridge{b.LogSink.WithName(name), b.project}
}

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

// UTF8 reports whether the locale of an environment has characters beyond ASCII. By POSIX, the first of LC_ALL, LC_CTYPE and LANG that is
// set and not empty decides. Without any it is the C locale.
func UTF8(env []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		for i := len(env) - 1; i >= 0; i-- { // the last one wins, as in os/exec
			if v, ok := strings.CutPrefix(env[i], name+"="); ok && v != "" {
				v = strings.ToUpper(v)
				return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
			}
		}
	}
	return false
}

// signs are pairs of a sign and its replacement of equal width. Longer ones come first.
var signs = strings.NewReplacer(
	" …\n", " ...\n", "…\n", "...\n", "…", "~",
	"→ ", "->", "→", ">", "←", "<", "↑", "^", "↓", "v", "▲", "^", "▼", "v",
	" · ", " | ", "·", ".", "–", "-", "—", "-", "−", "-", "×", "x", "µ", "u", "±", "~", "≥", ">", "≤", "<", "✓", "+", "✗", "x",
	"┌", "+", "┬", "+", "┐", "+", "├", "+", "┼", "+", "┤", "+", "└", "+", "┴", "+", "┘", "+", "─", "-", "│", "|",
	"━", "#", "╸", "-", "█", "#", "▇", "8", "▆", "7", "▅", "6", "▄", "5", "▃", "4", "▂", "3", "▁", "2", "░", ".", "\ufffd", "?",
)

// ASCII replaces the signs that the programs use by ASCII characters of the same width. At the end of a text or of a line an ellipsis
// becomes three points.
func ASCII(text string) string {
	if before, ok := strings.CutSuffix(text, "…"); ok {
		return signs.Replace(before) + "..."
	}
	return signs.Replace(text)
}

// File is a file of this process, such as os.Stdout. The descriptor tells the size of a terminal.
type File interface {
	io.Writer
	Fd() uintptr
}

// Writer returns a writer to f. It writes as ASCII does unless the locale is UTF-8.
func Writer(f File) File {
	if UTF8(os.Environ()) {
		return f
	}
	return &asciiFile{File: f}
}

// asciiFile writes ASCII. A character that a write splits is kept until the rest comes.
type asciiFile struct {
	File
	part []byte
}

// Write implements io.Writer.
func (w *asciiFile) Write(b []byte) (int, error) {
	text := append(w.part, b...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i]; utf8.RuneStart(last) {
			if last >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-i:]) {
				whole -= i
			}
			break
		}
	}
	w.part = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.File, signs.Replace(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (w *asciiFile) WriteString(s string) (int, error) { return w.Write([]byte(s)) }
