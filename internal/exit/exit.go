// Package exit defines the exit codes of gnnsched's commands, and an error type that carries an exit
// code and a hint for the user. Faults collects the faults of a value.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The exit codes. They are documented, and scripts rely on them.
const (
	OK          = 0   // success
	Internal    = 1   // any other error
	Usage       = 2   // wrong flag, argument or configuration file
	Unreachable = 3   // the cluster does not answer
	Kubeconfig  = 4   // no kubeconfig, no such context in it, or it does not fit the cluster: address, certificates, user or rights
	Checkpoint  = 5   // a checkpoint cannot be read or does not fit
	Declined    = 6   // a person answered a question with no; nothing was changed
	Gate        = 99  // a threshold was missed
	Interrupted = 130 // Ctrl-C or SIGTERM
)

// Meaning explains an exit code to users.
type Meaning struct {
	Code int
	Text string
}

// Meanings returns the meanings of all exit codes, in ascending order.
func Meanings() []Meaning {
	return []Meaning{
		{OK, "success"},
		{Internal, "another error"},
		{Usage, "wrong option, argument or configuration file"},
		{Unreachable, "the cluster does not answer"},
		{Kubeconfig, "no kubeconfig, no such context in it, or it does not fit the cluster (address, certificates, user or the user's rights)"},
		{Checkpoint, "a checkpoint cannot be read or does not fit"},
		{Declined, "the answer to a question was no; nothing was changed"},
		{Gate, "a threshold was missed"},
		{Interrupted, "Ctrl-C or SIGTERM"},
	}
}

// Error is an error with an exit code. Err tells the failure and its cause. Hint tells the user's next step; it may be empty.
type Error struct {
	Code int
	Err  error
	Hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error that wraps err.
func New(code int, err error, hint string) *Error { return &Error{Code: code, Err: err, Hint: hint} }

// Usagef returns a usage error (code 2) with a formatted message and no hint.
func Usagef(format string, a ...any) *Error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, a...)}
}

// Code returns the exit code for err: OK for nil, the code of an *Error in its chain, else
// Interrupted for a cancelled context, else Internal.
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

// Report writes err to w as "prog: error: what and why" and, if it has a hint, a second line
// "prog: hint: the next step". It writes nothing for nil.
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

// most is the number of quoted bytes of a value.
const most = 40

// Quote quotes the first 40 bytes of a value and adds the length of a longer one.
func Quote(value string) string {
	if len(value) <= most {
		return strconv.Quote(value)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(strings.ToValidUTF8(value[:most], "")), len(value))
}

// Clean returns at most n bytes of a message that quotes such text, without control characters except line feeds.
func Clean(message string, n int) string {
	cut := message
	if len(cut) > n {
		cut = cut[:n] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(cut, ""))
}

// ShellLine returns a command line for a POSIX shell.
func ShellLine(args ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.Trim(a, plain) != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Faults collects what is wrong with a value, so that a person learns of all faults at once. The zero value has none.
type Faults struct{ all []error }

// Add adds a fault, which is formatted as by fmt.Errorf.
func (l *Faults) Add(format string, a ...any) { l.all = append(l.all, fmt.Errorf(format, a...)) }

// If adds a fault if something is wrong.
func (l *Faults) If(wrong bool, format string, a ...any) {
	if wrong {
		l.Add(format, a...)
	}
}

// Err returns the faults as one error, a line each; nil if there are none.
func (l *Faults) Err() error { return errors.Join(l.all...) }

// In adds an error, if there is one, behind the name of the part that has it.
func (l *Faults) In(part string, err error) {
	if err != nil {
		l.Add("%s%w", part, err)
	}
}

// Each adds the errors that an error joins, each behind the name of the part that has them.
func (l *Faults) Each(part string, err error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		l.In(part, err)
		return
	}
	for _, e := range joined.Unwrap() {
		l.Each(part, e)
	}
}
