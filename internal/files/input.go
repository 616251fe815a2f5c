// Package files reads and writes whole files. Files that a user names are read up to a limit: a device or the wrong file would otherwise
// take all memory. A written file has the old content or the new one, never a part of it. Credentials can be in files that no directory
// shows.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The limits in bytes.
const (
	Text    = 16 << 20  // of what people write: configurations, values, keys, tokens
	Data    = 256 << 20 // of what programs write: shapes with measured series
	maxLine = 64 << 20  // of one line of a table
)

// errTooLong is wrapped by the errors of files that are longer than their limit.
var errTooLong = errors.New("is too long")

func tooLong(path string, limit int64) error {
	return fmt.Errorf("%s %w: more than %d MiB; is it the right file?", path, errTooLong, limit>>20)
}

// Read returns the content of a file, which may be a pipe.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, tooLong(path, limit)
	}
	return b, err
}

// Check returns an error if a file is longer than a limit, for files that other code reads. It does not look into pipes, which can be read
// only once, and not at files that are not there.
func Check(limit int64, paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			continue // the reading code reports it
		}
		if info.Mode().IsRegular() {
			if info.Size() > limit {
				return tooLong(path, limit)
			}
			continue
		}
		if _, err := Read(path, limit); errors.Is(err, errTooLong) {
			return err
		}
	}
	return nil
}

// Lines returns a reader that fails at a line of more than maxLine bytes.
func Lines(r io.Reader) io.Reader { return &lines{r: r} }

type lines struct {
	r    io.Reader
	long int // bytes since the last end of a line
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		l.long = n - i - 1
	} else {
		l.long += n
	}
	if l.long > maxLine {
		return 0, fmt.Errorf("a line %w: more than %d MiB; is it the right file?", errTooLong, maxLine>>20)
	}
	return n, err
}

// unfinished begins the names of files that are being written.
const unfinished = ".unfinished-"

// Unfinished reports whether a file of this name was being written, as a process leaves one that is killed.
func Unfinished(name string) bool { return strings.HasPrefix(name, unfinished) }

// Write replaces a file by text in one step.
func Write(path string, text []byte, mode os.FileMode) error {
	return WriteBy(path, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteBy replaces a file by what write writes. The content is on the disk before the file has its name.
func WriteBy(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone if all went well
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
