package workers

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// thisBuild identifies what this program computes: its bytes, since a version says nothing of changes that are not committed, those of
// the shared libraries that it has loaded, and what decides about the last digits on this processor. Workers get units of their own build
// only.
var thisBuild = sync.OnceValues(func() (b build, err error) {
	path, err := os.Executable()
	if err != nil {
		return b, err
	}
	libraries, err := loaded("/proc/self/maps")
	if err != nil {
		return b, err
	}
	h := sha256.New()
	for _, p := range append([]string{path}, libraries...) {
		if err := add(h, p); err != nil {
			return b, fmt.Errorf("read this program: %w", err)
		}
	}
	processor := runtime.GOARCH
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA { // networks sum in another order without it
		processor += "v3"
	}
	if len(libraries) > 0 { // those of algebra have code for many processors
		model, err := os.ReadFile("/proc/cpuinfo")
		if err != nil {
			return b, err
		}
		processor += "-" + digest(fmt.Append(features(model), cpu.X86, cpu.ARM64))[:8]
	}
	return build{hex.EncodeToString(h.Sum(nil)[:8]), processor}, nil
})

// build is a program and a kind of processor.
type build struct{ program, processor string }

// exact is the build of processes whose results are the same to the last bit, approximate that of processes of the same program.
func (b build) exact() string       { return b.program + "-" + b.processor }
func (b build) approximate() string { return b.program + "-approximate" }

// add adds the bytes of a file to a hash.
func add(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}

// loaded returns the files of shared libraries in a list of mappings, sorted. A system without the list has none: there, programs with
// libraries are not built.
func loaded(maps string) ([]string, error) {
	data, err := os.ReadFile(maps)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		at := strings.IndexByte(line, '/')
		if at >= 0 && strings.Contains(line[at:], ".so") && !strings.Contains(line[at:], "/libnss_") { // those come and go
			out = append(out, strings.TrimSpace(line[at:]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// features returns the lines of cpuinfo that say which processor it is.
func features(cpuinfo []byte) (out []byte) {
	lines := bufio.NewScanner(bytes.NewReader(cpuinfo))
	for lines.Scan() && len(lines.Bytes()) > 0 { // of the first processor
		name, _, _ := strings.Cut(lines.Text(), ":")
		if slices.Contains([]string{"vendor_id", "cpu family", "model", "CPU implementer", "CPU part"}, strings.TrimSpace(name)) {
			out = append(out, lines.Bytes()...)
		}
	}
	return out
}
