// Package quote writes text so that it can be read and copied. It shortens foreign text, such as annotations of pods, before it goes into
// an error or a log. Such text may be as long as 256 KiB and may hold control characters.
package quote

import (
	"fmt"
	"strconv"
	"strings"
)

// most is the number of quoted bytes of a value.
const most = 40

// Value quotes the first 40 bytes of a value and adds the length of a longer one.
func Value(value string) string {
	if len(value) <= most {
		return strconv.Quote(value)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(strings.ToValidUTF8(value[:most], "")), len(value))
}

// Message returns at most n bytes of a message that quotes such text, without control characters except line feeds.
func Message(message string, n int) string {
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

// Shell returns a command line for a POSIX shell.
func Shell(args ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.Trim(a, plain) != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
