package cli

import (
	"errors"
	"fmt"
	"os"

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
