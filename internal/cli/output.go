package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
)

// output is a command's standard output. It keeps the first error of a write, so that a command that does not look at it fails too.
type output struct {
	file   *os.File
	failed error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.failed == nil && closed(o.file) {
		o.failed = exit.New(exit.Internal, errors.New("write the output: standard output is closed"),
			"to print nothing, redirect it with >/dev/null")
	}
	if o.failed != nil {
		return 0, o.failed
	}
	n, err := o.file.Write(p)
	if err != nil {
		o.failed = fmt.Errorf("write the output: %w", err)
	}
	return n, o.failed
}

// Fd returns the descriptor, for the size of a terminal.
func (o *output) Fd() uintptr { return o.file.Fd() }

// after joins the error of the output to the command's error, unless the latter already contains it.
func (o *output) after(err error) error {
	if o.failed == nil || errors.Is(err, o.failed) {
		return err
	}
	return errors.Join(err, o.failed)
}

// Aside returns the standard output of a command whose point is not what it prints, such as a health check: it succeeds without one.
func Aside(c *cli.Context) io.Writer {
	if closed(os.Stdout) {
		return io.Discard
	}
	return c.App.Writer
}

// JSON writes a value with indents.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Print writes a result in the format of --output.
func Print(c *cli.Context, r interface{ WriteText(io.Writer) error }) error {
	if c.String("output") == "json" {
		return JSON(c.App.Writer, r)
	}
	return r.WriteText(c.App.Writer)
}

// Format returns the format of --output, which must be one of some.
func Format(c *cli.Context, formats []string) (string, error) {
	if f := c.String("output"); !slices.Contains(formats, f) {
		return "", exit.Usagef("--output: %w", choice.Unknown("format", f, formats))
	}
	return c.String("output"), nil
}

// Written returns a function that writes a text to standard output unless the error beside it says that there is none:
// cli.Written(c)(json.Marshal(v)).
func Written(c *cli.Context) func(text []byte, err error) error {
	return func(text []byte, err error) error {
		if err == nil {
			_, err = c.App.Writer.Write(text)
		}
		return err
	}
}

// Columns returns the width in columns of a line written to w: the terminal's width, else $COLUMNS, else otherwise.
func Columns(w io.Writer, otherwise int) int {
	if f, is := w.(interface{ Fd() uintptr }); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// Writable returns a usage error if path cannot be written. Commands call it before minutes of work whose result goes there. It needs a
// writable directory and leaves path as it is.
func Writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gnnsched-*")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write %s: %w", path, err), "choose a place that you can write to with --out")
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// FindProgram returns the path of a program: in the directory of this one, following links, or in PATH.
func FindProgram(name string) (string, error) {
	if own, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		beside := filepath.Join(filepath.Dir(own), name)
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}

// MakeDir makes the directory of a flag or its default, with its parents, and reports it on w. It does nothing if the directory is there.
func MakeDir(w io.Writer, dir, flag string, mode os.FileMode) error {
	_, err := os.Stat(dir)
	if err == nil {
		return nil // a path that is no directory fails at the first file
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("%s: %w", flag, err), "choose a place that you can write to with "+flag)
	}
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "made the directory %s; choose another with %s\n", dir, flag)
	}
	return nil
}

// Bar is the progress of one command. It also writes log lines while it is drawn, for the log
// file.
type Bar struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil if nothing is drawn
	width int                      // columns for the text beside the bar
	log   zerolog.Logger
	phase string
	next  time.Time // of the next line in the same phase
	left  TimeLeft
	text  string // of the last Show
	note  string
}

const (
	steps = 1000            // of the bar
	pause = 5 * time.Second // between two lines of the same phase
)

// OnTerminal tells whether standard error is a terminal on which a bar can be drawn.
func OnTerminal() bool { return IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb" }

// NewBar returns a bar that is drawn on w if terminal is true.
func NewBar(w io.Writer, terminal bool, log zerolog.Logger) *Bar {
	b := &Bar{log: log}
	if terminal {
		const width = 10
		b.width = max(Columns(os.Stderr, 80)-width-12, 10) // a line that wraps could not be drawn over
		b.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(width),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true))
	}
	return b
}

// StderrBar returns a bar for a command without a log file, on its standard error w: lines where no bar is drawn.
func StderrBar(w io.Writer) *Bar {
	if OnTerminal() {
		return NewBar(w, true, zerolog.Nop())
	}
	return NewBar(w, false, zerolog.New(zerolog.ConsoleWriter{Out: w, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}}))
}

// Show reports which fraction of the job is done, from 0 to 1, and the remaining time. It logs the text if the phase is a new one or the
// last line is old.
func (b *Bar) Show(done float64, phase, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = text + b.left.After(done)
	text = b.describe()
	if b.bar != nil {
		// The last step is left to Close, because a full bar ends itself.
		_ = b.bar.Set(min(int(done*steps), steps-1)) // fails only past its end
	}
	if now := time.Now(); phase != b.phase || now.After(b.next) {
		b.phase, b.next = phase, now.Add(pause)
		b.log.Info().Msg(text)
	}
}

// Note adds a remark to what Show shows, and logs it.
func (b *Bar) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.note = text; text != "" {
		b.log.Info().Msg(text)
	}
	b.describe()
}

// describe draws the text with the note beside the bar, and returns both.
func (b *Bar) describe() string {
	text := b.text
	if b.note != "" {
		text = strings.TrimSpace(text + " (" + b.note + ")")
	}
	if b.bar != nil {
		b.bar.Describe(truncate(text, b.width))
	}
	return text
}

// Episodes returns what reports the episodes of one of several parts of the job.
func (b *Bar) Episodes(part, parts int, name string) func(done, total int) {
	return func(done, total int) {
		b.Show((float64(part)+float64(done)/float64(total))/float64(parts), name, fmt.Sprintf("%s: %d of %d episodes", name, done, total))
	}
}

// Close wipes the bar off the terminal.
func (b *Bar) Close() {
	if b.bar != nil {
		_ = b.bar.Finish() // fails only if the terminal is gone
	}
}

// truncate cuts text to a number of columns.
func truncate(text string, columns int) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}

// TimeLeft estimates the remaining time of a job from its elapsed time. It counts from the first call of After, and is not safe for
// concurrent use. The zero value is ready.
type TimeLeft struct {
	now   func() time.Time // nil: time.Now
	begin time.Time
	first float64 // done at the beginning
}

// Below these limits there is no estimate, because it would mislead.
const (
	leastDone = 0.02
	leastTime = 3 * time.Second
)

// After returns the time that is left when a share of the job is done, such as ", about 3 min left"; empty if it is not known yet.
func (l *TimeLeft) After(done float64) string {
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	at := now()
	if l.begin.IsZero() {
		l.begin, l.first = at, done
	}
	took, share := at.Sub(l.begin), done-l.first
	if share < leastDone || took < leastTime || done >= 1 {
		return ""
	}
	return ", about " + rough(time.Duration(float64(took)*(1-done)/share)) + " left"
}

// rough writes a duration in one unit.
func rough(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
