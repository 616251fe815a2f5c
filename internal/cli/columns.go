package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// usualColumns is the width of a terminal that is not known.
const usualColumns = 80

// Columns returns the number of columns that a line written to w may have: those of the terminal, else $COLUMNS, else 80.
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
