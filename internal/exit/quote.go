package exit

import (
	"fmt"
	"strconv"
	"strings"
)

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
