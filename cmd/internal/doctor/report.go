package doctor

import (
	"fmt"
	"io"
	"strings"

	"gnnsched/internal/exit"
	"gnnsched/internal/quote"
)

// state is the result of a check.
type state string

const (
	fine    state = "ok"
	missing state = "no"   // an unmet need of an optional command that was not named
	failed  state = "FAIL" // an unmet need of any other command
)

// finding is the outcome of one check.
type finding struct {
	state  state
	what   string // was checked
	detail string
	hint   string // what to do; empty if it is fine
	code   int    // exit code if it failed
}

// longest bounds a detail in bytes, because details may quote text from outside, such as the API server's version.
const longest = 600

// write prints findings as a list, one line each, with what to do below.
func write(w io.Writer, all []finding) error {
	var out strings.Builder
	width := 0
	for _, f := range all {
		width = max(width, len(f.what))
	}
	for _, f := range all {
		fmt.Fprintf(&out, "%-4s  %-*s  %s\n", f.state, width, f.what, strings.ReplaceAll(quote.Message(f.detail, longest), "\n", " "))
		if f.state != fine && f.hint != "" {
			fmt.Fprintf(&out, "%-4s  %-*s  -> %s\n", "", width, "", f.hint)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// verdict returns an error with the exit code of the first check that failed; nil if none did.
func verdict(all []finding) error {
	n, first := 0, finding{}
	for _, f := range all {
		if f.state == failed {
			if n++; n == 1 {
				first = f
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return exit.New(first.code, fmt.Errorf("one check failed: %s", first.what), "the list above says what to do")
	}
	return exit.New(first.code, fmt.Errorf("%d checks failed, the first of them %s", n, first.what), "the list above says what to do")
}
