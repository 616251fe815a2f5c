package top

import (
	"io"
	"os"

	"gnnsched/internal/cli"
)

// IsScreen tells whether w is a terminal that the view can be drawn on.
func IsScreen(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && cli.IsTerminal(f) && os.Getenv("TERM") != "dumb"
}
