package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

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

// usualColumns is the assumed width of an unknown terminal.
const usualColumns = 80

// Columns returns the width in columns of a line written to w: the terminal's width, else $COLUMNS, else 80.
func Columns(w io.Writer) int {
	if f, is := w.(interface{ Fd() uintptr }); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return usualColumns
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
