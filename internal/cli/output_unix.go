//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// closed tells whether a program was started without standard output, as a shell does with >&-. Go's runtime then opens /dev/null for
// reading and writing in its place; some supervisors open it for reading. A redirection to /dev/null opens it for writing only.
func closed(stdout *os.File) bool {
	flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_WRONLY {
		return err != nil
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	own, err := stdout.Stat()
	return err == nil && os.SameFile(null, own)
}
