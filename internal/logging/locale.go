package logging

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

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
