package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

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
