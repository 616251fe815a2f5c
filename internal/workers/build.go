package workers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/cpu"
)

// thisBuild identifies what this program computes: its bytes, since a version says nothing of changes that are not committed, and the
// architecture, which decides about the last digits. Workers get units of their own build only.
var thisBuild = sync.OnceValues(func() (b build, err error) {
	path, err := os.Executable()
	if err != nil {
		return b, err
	}
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close() // it is only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return b, fmt.Errorf("read this program: %w", err)
	}
	processor := runtime.GOARCH
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA { // networks sum in another order without it
		processor += "v3"
	}
	return build{hex.EncodeToString(h.Sum(nil)[:8]), processor}, nil
})

// build is a program and a kind of processor.
type build struct{ program, processor string }

// exact is the build of processes whose results are the same to the last bit, approximate that of processes of the same program.
func (b build) exact() string       { return b.program + "-" + b.processor }
func (b build) approximate() string { return b.program + "-approximate" }
