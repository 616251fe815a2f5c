// Package exit is how a command of gnnsched ends: the documented exit codes, and an
// error that carries one of them together with the next step for the user.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The exit codes that the commands document. Scripts rely on them.
const (
	OK          = 0   // success
	Internal    = 1   // a fault of ours, or one we do not know better
	Usage       = 2   // wrong flag, argument or configuration file
	Unreachable = 3   // the cluster does not answer
	Kubeconfig  = 4   // no kubeconfig, or no such context in it
	Checkpoint  = 5   // a checkpoint that cannot be read or does not fit
	Gate        = 99  // a threshold was missed
	Interrupted = 130 // Ctrl-C or SIGTERM
)

// Error is an error that decides the exit code. Err says what failed and why; Hint says
// what the user can do next, and may be empty.
type Error struct {
	Code int
	Err  error
	Hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap implements the errors.Unwrap convention.
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error with the given code and hint around err.
func New(code int, err error, hint string) *Error { return &Error{Code: code, Err: err, Hint: hint} }

// Usagef returns a usage error (code 2) with a formatted message and no hint.
func Usagef(format string, a ...any) *Error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, a...)}
}

// Code returns the exit code that err stands for: 0 for nil, 130 for a cancelled context,
// the code of an *Error in its chain, 1 otherwise.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Internal
}

// Report writes err the way every command shows it: "prog: error: what and why" and, where
// one is known, "prog: hint: the next step".
func Report(w io.Writer, prog string, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(w, "%s: error: %v\n", prog, err)
	var e *Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintf(w, "%s: hint: %s\n", prog, e.Hint)
	}
}
